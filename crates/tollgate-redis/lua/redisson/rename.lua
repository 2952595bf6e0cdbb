-- Moves a limiter to another name with all it knows. Redisson moves the config alone, and the limiter begins anew.
--
-- KEYS     five as in config.lua, then the same five of the new name; ARGV[1], ARGV[2] as in clock.lua
--
-- replies  {1, clock} moved; {0, clock} there is none by this name; 3 as in acquire.lua
-- writes   whatever lay under the new names is gone
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
