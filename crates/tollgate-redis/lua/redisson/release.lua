-- Gives permits back, whoever took them: the oldest grants go first, and the last of them may go in part.
--
-- KEYS, ARGV[1], ARGV[2]  as in clock.lua and config.lua
-- ARGV[3]  permits  more than were taken are as good as all of them
--
-- replies  {1, clock, free}, or 2, 3, 4 as in acquire.lua
-- writes   a grant that goes in part keeps its score and its random bytes; value + permits in grants = rate
local left = tonumber(ARGV[3])
local whole, at, part, rest = lapsed, lapsed
while score and left > 0 and not strange do
  local batch = call('ZRANGE', permits_key, at, at + 99, 'WITHSCORES')
  if #batch == 0 then
    break
  end
  at = at + 100
  for i = 1, #batch, 2 do
    local permits
    permits, strange = sum({batch[i]})
    if strange or left == 0 then
      break
    end
    if permits <= left then
      left, whole, value = left - permits, whole + 1, value + permits
    else
      part = {batch[i + 1], batch[i]}
      rest, value, left = permits - left, value + left, 0
      break
    end
  end
end
if strange then
  return {4, clock, strange, permits_key == KEYS[5] and 1 or 0}
end
if whole > 0 then
  call('ZREMRANGEBYRANK', permits_key, 0, whole - 1)
end
if part then
  local name = part[2]
  call('ZREM', permits_key, name)
  call('ZADD', permits_key, part[1], name:sub(1, -5) .. struct.pack('I', rest))
end
if value > rate or call('EXISTS', permits_key) == 0 then
  value = rate
end
if value ~= stored then
  call('SET', value_key, format('%d', value), 'KEEPTTL')
end
prolong(keep_alive, value_key, permits_key)
return {1, clock, value > 0 and value or 0}
