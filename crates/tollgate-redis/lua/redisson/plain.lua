-- The common cases, in as few steps as they take: grants of one permit each, as many as permits are missing, so that nothing
-- has to be summed up. Whatever is not plain is left to what follows, where functions are made, which takes its time.
-- Arguments and replies as in acquire.lua, but in one string, which Redis answers with sooner than with a list: a byte for the
-- code, five of nothing, seven for the clock, and eight for each of two numbers.
--
-- gives    wanted, member, stored and edge; due, how many grants have lapsed, if that was counted
local wanted = tonumber(ARGV[3])
if wanted > rate then
  return {5, clock, rate}
end
local stored = tonumber(call('GET', value_key))
local due, wait, is_plain
if stored and stored <= rate and ARGV[5] ~= '1' then
  if stored >= wanted then
    -- Numbers go to commands as text: what Redis makes of them takes longer.
    due = call('ZCOUNT', permits_key, '-inf', format('%d', now - interval))
    is_plain = due == 0
  elseif wanted - stored == 1 then
    local first = call('ZRANGE', permits_key, '0', '0', 'WITHSCORES')
    local score = tonumber(first[2])
    if score and score <= now - interval then
      due = call('ZCOUNT', permits_key, '-inf', format('%d', now - interval))
    elseif score and score <= now + interval and #first[1] == 21 and unpack('I', first[1], 18) == 1
        and stored + call('ZCARD', permits_key) == rate then
      -- The books balance, and the oldest is of one permit: so are all.
      is_plain, wait = true, score + interval - now
    end
  end
  if due and due > 0 and due <= 1000 and stored + call('ZCARD', permits_key) == rate then
    local gone = call('ZRANGE', permits_key, '0', format('%d', due - 1))
    is_plain = true
    for i = 1, due do
      if #gone[i] ~= 21 or unpack('I', gone[i], 18) ~= 1 then
        is_plain = false
        break
      end
    end
    if is_plain then
      call('ZREMRANGEBYRANK', permits_key, '0', format('%d', due - 1))
    end
  end
end
local member = not wait and struct.pack('Bc0I', 16, ARGV[4], wanted)
if is_plain then
  if not wait and call('ZADD', permits_key, format('%d', now), member) == 1 then
    stored = call('DECRBY', value_key, due == 0 and ARGV[3] or format('%d', wanted - due))
  elseif due and due > 0 then
    -- The same operation, sent twice: its grant is there and charged, but what has lapsed is free.
    stored = call('INCRBY', value_key, format('%d', due))
  end
  local lives = keep_alive
  if lives > 0 then
    call('PEXPIRE', KEYS[1], lives)
  else
    lives = call('PTTL', KEYS[1])
  end
  if lives > 0 then
    call('PEXPIRE', value_key, lives)
    call('PEXPIRE', permits_key, lives)
  end
  if wait then
    return struct.pack('>BxxxxxI7I8I8', 0, clock, wait, wait + 3)
  end
  return struct.pack('>BxxxxxI7I8I8', 1, clock, stored, 0)
end
local edge = format('%d', now - interval)
