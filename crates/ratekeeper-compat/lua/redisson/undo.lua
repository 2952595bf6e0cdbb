-- Returns one grant by its id, after its caller was dropped or got no reply. Idempotent.
--
-- KEYS, ARGV[1], ARGV[2]  as in clock.lua and config.lua
-- ARGV[3]  permits, ARGV[4]  id   as they were sent
--
-- replies  {1, clock} returned; {0, clock} not found: never made, or expired since; 2, 3 as in acquire.lua
-- writes   removes the grant and adds its permits to the value, at most up to the rate
-- TTL      unchanged
local wanted = tonumber(ARGV[3])
local value = tonumber(call('GET', value_key))
if call('ZREM', permits_key, struct.pack('Bc0I', 16, ARGV[4], wanted)) == 0 then
  return {0, clock}
end
if value then
  value = value + wanted
  call('SET', value_key, format('%d', value < rate and value or rate), 'KEEPTTL')
end
return {1, clock}
