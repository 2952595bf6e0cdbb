-- Fast path of acquire.lua: all grants are of one permit, and as many as permits are missing, so that nothing has to be
-- summed. Every other case continues with the parts that follow. No function is created here, because closures cost more
-- than the commands.
--
-- KEYS, ARGV  as in acquire.lua
-- replies  as in acquire.lua, packed into one string, which Redis returns faster than a list: code (1 byte), 5 unused
--          bytes, clock (7), two numbers (8 each)
-- gives    wanted, member, stored and edge; due, the number of expired grants, if it was counted
local wanted = tonumber(ARGV[3])
if wanted > rate then
  return {5, clock, rate}
end
local stored = tonumber(call('GET', value_key))
local due, wait, is_plain
if stored and stored <= rate and ARGV[5] ~= '1' then
  if stored >= wanted then
    -- Numbers are passed as text: Redis takes longer to convert them.
    due = call('ZCOUNT', permits_key, '-inf', format('%d', now - interval))
    is_plain = due == 0
  elseif wanted - stored == 1 then
    local first = call('ZRANGE', permits_key, '0', '0', 'WITHSCORES')
    local score = tonumber(first[2])
    if score and score <= now - interval then
      due = call('ZCOUNT', permits_key, '-inf', format('%d', now - interval))
    elseif score and score <= now + interval and #first[1] == 21 and unpack('I', first[1], 18) == 1
        and stored + call('ZCARD', permits_key) == rate then
      -- Value and number of grants add up to the rate, and the oldest grant has one permit: then all have.
      is_plain, wait = true, score + interval - now
    end
  end
  if due and due > 0 and due <= 1000 and stored + call('ZCARD', permits_key) == rate then
    local expired = call('ZRANGE', permits_key, '0', format('%d', due - 1))
    is_plain = true
    for i = 1, due do
      if #expired[i] ~= 21 or unpack('I', expired[i], 18) ~= 1 then
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
    -- The same operation, sent twice: its grant exists and is charged; only the expired permits become free.
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
