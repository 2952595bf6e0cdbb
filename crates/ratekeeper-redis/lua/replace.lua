-- Compare and set of one key: writes migrated state, or the replacement of a foreign value.
--
-- KEYS[1]  the key
-- ARGV[1]  deadline: big-endian double, µs
-- ARGV[2]  the value that was read
-- ARGV[3]  the new value; empty deletes the key
-- ARGV[4], ARGV[5]  TTL: PX and milliseconds, or in tests PXAT and milliseconds since 1970
--
-- reply    code (6 bytes) and server's time (7): 1 written, 0 the value has changed, 3 after the deadline
-- writes   the key, if it still holds ARGV[2]
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
