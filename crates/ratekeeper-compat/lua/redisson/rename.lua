-- Renames a limiter, state included. Redisson renames the configuration only, which resets the limiter.
--
-- KEYS     five as in config.lua, then the same five of the new name; ARGV[1], ARGV[2] as in clock.lua
--
-- replies  {1, clock} renamed; {0, clock} the limiter does not exist; 3 as in acquire.lua
-- writes   replaces the keys of the new name
-- TTL      unchanged
if call('EXISTS', KEYS[1]) == 0 then
  return {0, clock}
end
for i = 1, 5 do
  if call('EXISTS', KEYS[i]) == 1 then
    call('RENAME', KEYS[i], KEYS[i + 5])
  else
    call('DEL', KEYS[i + 5])
  end
end
return {1, clock}
