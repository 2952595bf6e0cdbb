-- One request to a gateway's bucket, on the keys and in the format of Spring Cloud Gateway and ShenYu.
--
-- KEYS[1]  tokens      decimal text, may have a fraction      KEYS[2]  timestamp   seconds since 1970
-- ARGV[1]  deadline    big-endian double: the server's time in microseconds after which the script does nothing
-- ARGV[2]  now         microseconds, or empty for the server's time
-- ARGV[3]  rate        tokens per second      ARGV[4]  capacity      ARGV[5]  requested, at most the capacity
-- ARGV[6]  '1': time in microseconds, written as seconds with a fraction, which the gateways can read; else whole seconds
--
-- replies  {1, clock, left}          allowed; tokens left, as text
--          {0, clock, left, wait}    refused; microseconds until the tokens are there if no other request takes them, at
--                                    most a hundred years, which keeps the sum exact
--          {3, clock}                after the deadline; nothing was done
-- writes   both keys, also when refused, as the gateways do
-- TTL      twice the time of a complete refill, in whole seconds, from 1 s to 200 years. The gateways round down to 0, and
--          then lose the state (Spring) or fail (ShenYu); Redis refuses later expiries.
local call = redis.call
local time = call('TIME')
local clock = time[1] * 1000000 + time[2]
if clock > struct.unpack('>d', ARGV[1]) then
  return {3, clock}
end
local micros = tonumber(ARGV[2]) or clock
local rate, capacity, requested = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local is_fine = ARGV[6] == '1'
-- With the six decimal places it is stored with.
local now = is_fine and tonumber(string.format('%.6f', micros / 1000000)) or math.floor(micros / 1000000)

local stored = call('MGET', KEYS[1], KEYS[2])
local tokens, last = tonumber(stored[1]) or capacity, tonumber(stored[2]) or 0
local filled = math.min(capacity, tokens + math.max(0, now - last) * rate)
local is_allowed = filled >= requested
local left = is_allowed and filled - requested or filled

local century = 3153600000
local lives = math.max(1, math.floor(2 * math.min(century, capacity / rate)))
call('SET', KEYS[1], left, 'EX', lives)
call('SET', KEYS[2], is_fine and string.format('%.6f', now) or now, 'EX', lives)

local text = string.format('%.17g', left)
if is_allowed then
  return {1, clock, text}
end
if (requested - filled) / rate > century then
  return {0, clock, text, century * 1000000}
end
-- Tokens arrive every whole second, or continuously. A sum of floats may be smaller than the division says: then the wait
-- is a step longer.
local step = is_fine and 0.000001 or 1
local steps = math.ceil((requested - filled) / rate / step)
local at = now + steps * step
for _ = 1, 4 do
  if filled + (at - now) * rate >= requested then
    break
  end
  at = at + step
end
return {0, clock, text, math.ceil(at * 1000000 - micros)}
