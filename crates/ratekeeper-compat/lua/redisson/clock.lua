-- Deadline and time: the first part of every script.
--
-- ARGV[1]  deadline   big-endian double: the server's time in microseconds after which the script does nothing
-- ARGV[2]  now        the caller's clock in milliseconds, or empty for the server's
--
-- replies  {3, clock} after the deadline
-- gives    clock (microseconds, the server's, part of every reply) and now (milliseconds, the unit of all scores)
local call, unpack, format = redis.call, struct.unpack, string.format
local time = call('TIME')
local clock = time[1] * 1000000 + time[2]
if clock > unpack('>d', ARGV[1]) then
  return {3, clock}
end
local now = tonumber(ARGV[2]) or (clock - clock % 1000) / 1000
