-- What is there: free permits as stored (nil if nothing is), the oldest grant and its score (nil if there is none), and
-- how many grants there are. A grant as old as `edge` has lapsed.
local stored = tonumber(call('GET', value_key))
local first = call('ZRANGE', permits_key, 0, 0, 'WITHSCORES')
local oldest, score, edge = first[1], tonumber(first[2]), now - interval
local count = score and call('ZCARD', permits_key) or 0
