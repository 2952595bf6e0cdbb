-- Sets the rate in any case, with or without the permits taken under the old one.
--
-- KEYS, ARGV[1], ARGV[2]  as in clock.lua and config.lua
-- ARGV[3] to ARGV[6]      as in try_set_rate.lua
-- ARGV[7]  '1': grants within the new interval still count      ARGV[8]  '1': only if a rate is set
--
-- replies  {1, clock} set; {0, clock} no rate was set, nothing was done; 3, 4 as in acquire.lua
-- writes   all fields. A change of type clears both states, shared and of this client. With state kept, the value is
--          rate - permits in grants. If more than the new rate is taken, the oldest permits are removed from the grants,
--          and the value is 0, as Redisson shows it. No permit is free earlier for that: at any later time the grants
--          that are left hold the lesser of the rate and what all of them would hold.
-- TTL      that of the configuration stays unless there is a keep-alive time, as with Redisson
local old = call('HGET', KEYS[1], 'type')
if ARGV[8] == '1' and call('EXISTS', KEYS[1]) == 0 then
  return {0, clock}
end
local rate, keep_alive, edge = tonumber(ARGV[3]), tonumber(ARGV[6]), now - ARGV[4]
local value_key, permits_key = KEYS[2], KEYS[4]
if ARGV[5] == '1' then
  value_key, permits_key = KEYS[3], KEYS[5]
end
local keeps = ARGV[7] == '1' and old == ARGV[5]
local members, taken, strange
if keeps then
  members = call('ZRANGEBYSCORE', permits_key, '(' .. format('%d', edge), '+inf')
  taken, strange = sum(members)
  if strange then
    return {4, clock, strange, permits_key == KEYS[5] and 1 or 0}
  end
end
call('HSET', KEYS[1], 'rate', ARGV[3], 'interval', ARGV[4], 'type', ARGV[5], 'keepAliveTime', ARGV[6])
if old ~= ARGV[5] then
  call('DEL', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
elseif not keeps then
  call('DEL', value_key, permits_key)
end
if not keeps then
  if keep_alive > 0 then
    call('PEXPIRE', KEYS[1], keep_alive)
  end
  return {1, clock}
end
call('ZREMRANGEBYSCORE', permits_key, '-inf', edge)
local whole = 0
while taken > rate do
  local oldest = members[whole + 1]
  local permits = permits_in(oldest)
  if taken - permits < rate then
    local score = call('ZSCORE', permits_key, oldest)
    call('ZREM', permits_key, oldest)
    call('ZADD', permits_key, score, oldest:sub(1, -5) .. struct.pack('I', permits - (taken - rate)))
    taken = rate
  else
    whole, taken = whole + 1, taken - permits
  end
end
if whole > 0 then
  call('ZREMRANGEBYRANK', permits_key, 0, whole - 1)
end
call('SET', value_key, format('%d', rate - taken), 'KEEPTTL')
prolong(keep_alive, value_key, permits_key)
return {1, clock}
