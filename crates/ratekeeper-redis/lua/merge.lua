-- Takes of one key that wait together: the decisions, value and TTL are those of takes one after the other at one time.
-- Takes with equal numbers that follow each other are one run. Not for concurrency rules, sliding logs and rules that
-- count refused requests. Twin of consecutive calls of `Policy::decide`.
--
-- KEYS[1]  the key
-- ARGV[1]  big-endian doubles below 2^53; times in µs:
--            deadline   server's time after which nothing is charged
--            runs       their number
--            tag, the numbers of the rules except the last of each, the last of each
--            per run    number of takes, cost (at least 1), max_wait and longest as in take.lua
-- ARGV[2], ARGV[3]  as in take.lua
--
-- reply    bytes, as in take.lua; code 5 is followed by the value before the first take, if there was one: the caller
--          computes the decisions from it
-- writes   as in take.lua
-- TTL      as in take.lua
--@ include clock
--@ numbers deadline runs
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
--@ parties
--@ include read
--@ rules
--@ do level
--@ end
--@ runs
for run = 1, runs do
  local count, cost, max_wait, longest = unpack('>dddd', ARGV[1], place)
  place = place + 32
--@ include ended
--@ if additive
  -- All takes that proceed at once are one charge.
  if @until <= now then
    local fit = count
--@ rules
    do
      local remaining, rests
--@ do look
      remaining = floor(remaining / cost)
      if remaining < fit then
        fit = remaining
      end
    end
--@ end
    if fit > 0 then
      local cost, moment = fit * cost, now
--@ rules
      do
--@ do charge
      end
--@ end
      count, @moved = count - fit, true
    end
  end
--@ end
  while count > 0 do
--@ include ended
--@ include decide
    -- Then the others of the run are refused as well: nothing has changed.
    if refused then
      break
    end
    count = count - 1
  end
end
local @new
if @moved then
--@ include write
end
return pack('>I6I7', 5, now) .. (@raw or '')
--@ end
