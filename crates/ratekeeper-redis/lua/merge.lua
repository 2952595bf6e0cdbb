-- Takes of one key that wait together: the decisions, value and TTL are those of takes one after the other at one time.
-- Takes with equal numbers that follow each other are one run. Not for concurrency rules. Twin of consecutive calls of
-- `Policy::decide`.
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
--          computes the decisions from it; code 7 is a long log, whose takes have to be sent one by one
-- writes   as in take.lua
-- TTL      as in take.lua
--@ include clock
--@ numbers deadline runs
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
--@ if lone log
-- Single takes edit a long log in place. Reading all of it takes longer than many of those.
if call('STRLEN', KEYS[1]) > 16384 then
  return pack('>I6I7', 7, now)
end
--@ end
--@ parties
--@ include read
--@ rules
--@ do level
--@ end
--@ runs
--@ include runs
local @new
if @moved then
--@ include write
end
return pack('>I6I7', 5, now) .. (@raw or '')
--@ end
