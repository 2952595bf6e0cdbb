-- One attempt to acquire permits.
--
-- KEYS, ARGV[1], ARGV[2]  as in clock.lua and config.lua
-- ARGV[3]  permits   1 to 2^32 - 1
-- ARGV[4]  id        16 random bytes: the grant's name, and that of the operation
-- ARGV[5]  '1' when this was sent before and may have been carried out: granted if the grant is there already
--
-- replies  {1, clock, free}          granted; free permits left
--          {0, clock, wait, lower}   refused; milliseconds until so many are free, and Redisson's own figure, which
--                                    looks at the oldest grant alone and adds three
--          {2, clock}                never set up      {3, clock}  too late; nothing was done
--          {4, clock, size, own}     a grant of so many bytes cannot be read, under this client's key (1) or the shared
--                                    one (0); nothing was done
--          {5, clock, rate}          more than the rate: no wait would do
-- writes   grants that lapsed go; a new one comes with its score in milliseconds; value + permits in grants = rate
if ARGV[5] == '1' and call('ZSCORE', permits_key, member) then
  return {1, clock, value and value > 0 and value or 0}
end
if not strange and value < wanted and count > 0 then
  reckon()
end
-- The grants to wait for, oldest first, until enough will be free.
local lower = 0
wait = 0
if not strange and value < wanted then
  if not oldest then
    look()
  end
  if score > now + interval and ARGV[2] == '' then
    -- More than a window ahead: whoever wrote this has a clock gone wrong, or ours was set back. It counts from now.
    local ahead = call('ZRANGEBYSCORE', permits_key, '(' .. format('%d', now + interval), '+inf')
    for i = 1, #ahead do
      call('ZADD', permits_key, 'XX', format('%d', now), ahead[i])
    end
    look()
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
-- A grant that is there already was made by the same operation, sent twice: it is charged once.
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
