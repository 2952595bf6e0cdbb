-- The common case, in as few steps as it takes: nothing has lapsed, nothing is odd, and there are permits enough. Whatever
-- is not plain is left to what follows. Arguments and replies as in acquire.lua.
local wanted = tonumber(ARGV[3])
if wanted > rate then
  return {5, clock, rate}
end
local member = struct.pack('Bc0I', 16, ARGV[4], wanted)
if stored and stored >= wanted and score and score > edge and score <= now + interval and stored + count <= rate
    and ARGV[5] ~= '1' then
  if call('ZADD', permits_key, 'NX', now, member) == 1 then
    stored = call('DECRBY', value_key, ARGV[3])
  end
  prolong(keep_alive, value_key, permits_key)
  return {1, clock, stored}
end
