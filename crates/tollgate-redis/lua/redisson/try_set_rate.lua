-- Sets the limiter up unless it is.
--
-- KEYS[1]  config; ARGV[1], ARGV[2] as in clock.lua
-- ARGV[3]  rate   ARGV[4]  interval, ms   ARGV[5]  type, 0 or 1   ARGV[6]  keep-alive time, ms, 0 for none
--
-- replies  {1, clock} set; {0, clock} it was set up before; 3 as in acquire.lua
-- writes   each field that is not there: a config of before 3.38 gets its keepAliveTime, as from Redisson
call('HSETNX', KEYS[1], 'rate', ARGV[3])
call('HSETNX', KEYS[1], 'interval', ARGV[4])
call('HSETNX', KEYS[1], 'keepAliveTime', ARGV[6])
local is_new = call('HSETNX', KEYS[1], 'type', ARGV[5])
if is_new == 1 and ARGV[6] ~= '0' then
  call('PEXPIRE', KEYS[1], ARGV[6])
end
return {is_new, clock}
