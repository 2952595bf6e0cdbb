-- Every script here begins with this: the deadline, and the time in both of its forms.
--
-- ARGV[1]  the deadline, a big-endian double: the server's time in microseconds after which nothing may be done any more
-- ARGV[2]  the caller's clock in milliseconds, or empty: the server's own time, by which skewed callers agree
--
-- gives    clock (microseconds, the server's, told in every reply) and now (milliseconds, the unit of all scores)
local call, unpack, format = redis.call, struct.unpack, string.format
local time = call('TIME')
local clock = time[1] * 1000000 + time[2]
if clock > unpack('>d', ARGV[1]) then
  return {3, clock}
end
local now = tonumber(ARGV[2]) or (clock - clock % 1000) / 1000
