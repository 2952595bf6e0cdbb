-- Takes one grant back, by its name: of a caller who did not wait for the answer, or never got it. Any number of times.
--
-- KEYS, ARGV[1], ARGV[2]  as in clock.lua and config.lua
-- ARGV[3]  permits, ARGV[4]  id   as they were sent
--
-- replies  {1, clock} taken back; {0, clock} not there: never made, or lapsed since; 2, 3 as in acquire.lua
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
