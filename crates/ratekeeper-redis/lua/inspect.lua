-- Reads a key for an explanation. Changes nothing.
-- KEYS[1]: the key.  ARGV[1]: eight bytes of a deadline, which is ignored because nothing is charged.
-- Reply: seconds and microseconds of TIME, then the value; nil ends the list if there is none.
local time = redis.call('TIME')
return { time[1], time[2], redis.call('GET', KEYS[1]) }
