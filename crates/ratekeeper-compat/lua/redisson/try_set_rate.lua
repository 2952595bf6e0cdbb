-- Sets the rate unless one is set.
--
-- KEYS[1]  config; ARGV[1], ARGV[2] as in clock.lua
-- ARGV[3]  rate   ARGV[4]  interval, ms   ARGV[5]  type, 0 or 1   ARGV[6]  keep-alive time, ms, 0 for none
--
-- replies  {1, clock} set; {0, clock} a rate was set before; 3 as in acquire.lua
-- writes   each missing field: a configuration from before 3.38 gets its keepAliveTime, as with Redisson
-- TTL      the keep-alive time, if there is one and the rate is new
call('HSETNX', KEYS[1], 'rate', ARGV[3])
call('HSETNX', KEYS[1], 'interval', ARGV[4])
call('HSETNX', KEYS[1], 'keepAliveTime', ARGV[6])
local is_new = call('HSETNX', KEYS[1], 'type', ARGV[5])
if is_new == 1 and ARGV[6] ~= '0' then
  call('PEXPIRE', KEYS[1], ARGV[6])
end
return {is_new, clock}
