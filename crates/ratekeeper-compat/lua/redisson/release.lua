-- Returns permits of any client: the oldest grants first, the last of them possibly in part.
--
-- KEYS, ARGV[1], ARGV[2]  as in clock.lua and config.lua
-- ARGV[3]  permits  1 to 2^53; more than were taken returns all of them
--
-- replies  {1, clock, free}, or 2, 3, 4 as in acquire.lua
-- writes   a grant returned in part keeps its score and its random bytes; value + permits in grants = rate
-- TTL      see expiry.lua
if not strange and count > 0 then
  reconcile()
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
