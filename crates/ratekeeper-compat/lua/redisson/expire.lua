-- Sets or removes the TTL of all keys of a limiter.
--
-- KEYS     as in config.lua; ARGV[1], ARGV[2] as in clock.lua
-- ARGV[3]  PEXPIRE, PEXPIREAT or PERSIST      ARGV[4]  milliseconds; not for PERSIST
--
-- replies  {1, clock} if any key was changed, {0, clock} if none; 3 as in acquire.lua
local changed = 0
for i = 1, #KEYS do
  local done
  if ARGV[4] then
    done = call(ARGV[3], KEYS[i], ARGV[4])
  else
    done = call(ARGV[3], KEYS[i])
  end
  if done == 1 then
    changed = 1
  end
end
return {changed, clock}
