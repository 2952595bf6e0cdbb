-- One attempt to acquire permits.
--
-- KEYS, ARGV[1], ARGV[2]  as in clock.lua and config.lua
-- ARGV[3]  permits   1 to 2^32 - 1
-- ARGV[4]  id        16 random bytes, unique per grant; also the operation id
-- ARGV[5]  '1' if this was sent before and may have been executed: then an existing grant counts as granted
--
-- replies  {1, clock, free}          granted; free permits left
--          {0, clock, wait, lower}   refused; milliseconds until enough permits are free, and Redisson's figure, which
--                                    considers only the oldest grant and adds 3
--          {2, clock}                rate not set      {3, clock}  after the deadline; nothing was done
--          {4, clock, size, own}     a grant of `size` bytes cannot be read, under this client's key (1) or the shared
--                                    one (0); nothing was done
--          {5, clock, rate}          more permits than the rate: no wait would suffice
-- writes   removes expired grants; adds the new one with its time in milliseconds as score; value + permits in grants = rate
-- TTL      see expiry.lua
if ARGV[5] == '1' and call('ZSCORE', permits_key, member) then
  return {1, clock, value and value > 0 and value or 0}
end
if not strange and value < wanted and count > 0 then
  reconcile()
end
-- The grants to wait for, oldest first, until enough permits will be free.
local lower = 0
wait = 0
if not strange and value < wanted then
  if not oldest then
    read_oldest()
  end
  if score > now + interval and ARGV[2] == '' then
    -- More than an interval ahead: the writer's clock was wrong, or the server's was set back. The grant counts from now.
    local ahead = call('ZRANGEBYSCORE', permits_key, '(' .. format('%d', now + interval), '+inf')
    for i = 1, #ahead do
      call('ZADD', permits_key, 'XX', format('%d', now), ahead[i])
    end
    read_oldest()
  end
  local missing, at = wanted - value, lapsed + 1
  local batch = {oldest, score}
  lower = 3 + interval - (now - score)
  repeat
    for i = 1, #batch, 2 do
      local permits
      permits, strange = permits_in(batch[i])
      if strange then
        break
      end
      missing = missing - permits
      wait = batch[i + 1] + interval - now
      if missing <= 0 then
        break
      end
    end
    if strange or missing <= 0 then
      break
    end
    batch = call('ZRANGE', permits_key, at, at + 99, 'WITHSCORES')
    at = at + 100
  until #batch == 0
end
if strange then
  return {4, clock, strange, permits_key == KEYS[5] and 1 or 0}
end
if lapsed > 0 then
  call('ZREMRANGEBYSCORE', permits_key, '-inf', edge)
end
local granted = value >= wanted
-- An existing grant with this id was made by the same operation, sent twice: it is charged once.
if granted and call('ZADD', permits_key, 'NX', format('%d', now), member) == 1 then
  value = value - wanted
end
if value ~= stored then
  call('SET', value_key, format('%d', value), 'KEEPTTL')
end
prolong(keep_alive, value_key, permits_key)
if granted then
  return {1, clock, value}
end
return {0, clock, wait, lower}
