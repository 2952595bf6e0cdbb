-- The limiter's rate, and the keys that apply to its type.
--
-- KEYS[1]  config    hash: rate, interval (ms), type ('0' shared, '1' per client), keepAliveTime (ms; absent before 3.38)
-- KEYS[2]  value     string: free permits, shared         KEYS[3]  the same of this client
-- KEYS[4]  permits   sorted set: grants, shared           KEYS[5]  the same of this client
--
-- replies  {2, clock} if the rate is not set; {6, clock} if a field is no number
-- gives    rate, interval (ms), keep_alive (ms, 0 for none), value_key, permits_key
local fields = call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
if not (fields[1] and fields[2] and fields[3]) then
  return {2, clock}
end
local rate, interval, keep_alive = tonumber(fields[1]), tonumber(fields[2]), tonumber(fields[4] or '0')
if not (rate and interval and keep_alive) then
  return {6, clock}
end
local value_key, permits_key = KEYS[2], KEYS[4]
if fields[3] == '1' then
  value_key, permits_key = KEYS[3], KEYS[5]
end
