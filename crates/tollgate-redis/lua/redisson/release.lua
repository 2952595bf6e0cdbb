-- Gives permits back, whoever took them: the oldest grants go first, and the last of them may go in part.
--
-- KEYS, ARGV[1], ARGV[2]  as in clock.lua and config.lua
-- ARGV[3]  permits  more than were taken are as good as all of them
--
-- replies  {1, clock, free}, or 2, 3, 4 as in acquire.lua
-- writes   a grant that goes in part keeps its score and its random bytes; value + permits in grants = rate
if not strange and count > 0 then
  reckon()
end
if not strange and count > 0 then
  value = value + drop(tonumber(ARGV[3]))
end
if strange then
  return {4, clock, strange, permits_key == KEYS[5] and 1 or 0}
end
if lapsed > 0 then
  call('ZREMRANGEBYRANK', permits_key, 0, lapsed - 1)
end
if count == 0 then
  value = rate
end
if value ~= stored then
  call('SET', value_key, format('%d', value), 'KEEPTTL')
end
prolong(keep_alive, value_key, permits_key)
return {1, clock, value > 0 and value or 0}
