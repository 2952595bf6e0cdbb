-- Puts a new value where a known one lies, and only there: a state carried over to other rules, or one that was not ours.
--
-- KEYS[1]  the subject
-- ARGV[1]  the deadline, a big-endian double
-- ARGV[2]  the value that was found
-- ARGV[3]  the value to put there; empty to forget the key
-- ARGV[4], ARGV[5]  how long it lives: PX and milliseconds, or in tests PXAT and a moment
--
-- reply    six bytes of a code and seven of the time: 1 done, 0 something else lies there by now, 3 too late
local call, pack = redis.call, struct.pack
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if now > struct.unpack('>d', ARGV[1]) and ARGV[4] == 'PX' then
  return pack('>I6I7', 3, now)
end
if call('GET', KEYS[1]) ~= ARGV[2] then
  return pack('>I6I7', 0, now)
end
if ARGV[3] == '' then
  call('DEL', KEYS[1])
else
  call('SET', KEYS[1], ARGV[3], ARGV[4], ARGV[5])
end
return pack('>I6I7', 1, now)
