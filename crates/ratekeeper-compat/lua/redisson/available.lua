-- The number of free permits. Removes expired grants, as Redisson does.
--
-- KEYS, ARGV  as in clock.lua and config.lua
-- replies  {1, clock, free}, or 2, 3, 4 as in acquire.lua
-- writes   removes expired grants and corrects the value
-- TTL      unchanged; a new value gets that of the configuration
if not strange and count > 0 then
  reconcile()
end
if strange then
  return {4, clock, strange, permits_key == KEYS[5] and 1 or 0}
end
if lapsed > 0 then
  call('ZREMRANGEBYSCORE', permits_key, '-inf', edge)
end
if value ~= stored then
  call('SET', value_key, format('%d', value), 'KEEPTTL')
  local lives = call('PTTL', KEYS[1])
  if not stored and lives > 0 then
    call('PEXPIRE', value_key, lives)
  end
end
return {1, clock, value > 0 and value or 0}
