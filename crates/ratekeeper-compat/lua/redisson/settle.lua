-- The current state of the limiter.
--
-- gives    value        free permits, corrected
--          lapsed       number of expired grants, all of them the oldest; count, the number of the others
--          strange      the size of a grant that cannot be read; then nothing was written
--          read_oldest  reads the oldest grant that counts, and its score
--          reconcile    compares the value with the grants and corrects both
--          drop         removes permits from the grants
-- writes   removes grants that were released by value alone
local value, lapsed, freed, strange = stored, 0, 0
local oldest, score
local function read_oldest()
  local rank = format('%d', lapsed)
  local first = call('ZRANGE', permits_key, rank, rank, 'WITHSCORES')
  oldest, score = first[1], tonumber(first[2])
end
local count, gone = call('ZCARD', permits_key)
if due then
  gone = call('ZRANGE', permits_key, '0', format('%d', due - 1))
elseif count > 0 then
  read_oldest()
  if score <= now - interval then
    gone = call('ZRANGEBYSCORE', permits_key, '-inf', edge)
    oldest = nil
  end
end
if gone then
  freed, strange = sum(gone)
  lapsed = #gone
  count = count - lapsed
  if value and freed then
    value = value + freed
  end
end
-- Removes permits from the grants that count, the oldest first, and returns how many it found. A grant removed in part
-- keeps its score and its random bytes.
local function drop(permits)
  local left, at, whole, part, held = permits, lapsed, 0
  repeat
    local batch = call('ZRANGE', permits_key, at, at + 99, 'WITHSCORES')
    for i = 1, #batch, 2 do
      held, strange = permits_in(batch[i])
      if strange then
        return 0
      end
      if held > left then
        part = {batch[i], batch[i + 1]}
        break
      end
      left, whole = left - held, whole + 1
    end
    at = at + 100
  until part or #batch == 0
  if whole > 0 then
    call('ZREMRANGEBYRANK', permits_key, lapsed, lapsed + whole - 1)
  end
  if part and left > 0 then
    call('ZREM', permits_key, part[1])
    call('ZADD', permits_key, part[2], part[1]:sub(1, -5) .. struct.pack('I', held - left))
    left = 0
  end
  count, oldest = count - whole, nil
  return permits - left
end
-- Grants of one permit each, the common case, are as many as permits are missing; then only the expired ones or the oldest
-- are read. Otherwise all grants are summed: with more than 64 only now and then, unless value and grants contradict each
-- other.
local function reconcile()
  if value == rate - count then
    local are_single = lapsed > 0 and freed == lapsed
    if not are_single then
      if not oldest then
        read_oldest()
      end
      local permits
      permits, strange = permits_in(oldest)
      are_single = permits == 1
    end
    if strange or are_single then
      return
    end
  end
  if value and value < rate - count and count > 64 and clock % count >= 64 then
    return
  end
  local total
  total, strange = sum(call('ZRANGE', permits_key, lapsed, -1))
  if not total then
    return
  end
  local over = (value or 0) + total - rate
  if stored and stored <= rate and over > 0 then
    -- Released by Redisson up to 4.7, or under a rate it has lowered since: the value is right, and grants are still to be
    -- removed, the oldest first. Expired ones are the oldest.
    local past = over < freed and over or freed
    value = value - past
    if over > past then
      drop(over - past)
    end
  else
    value = rate - total
  end
end
if count == 0 then
  -- Nothing is taken, whatever the stored value.
  value = rate
elseif not strange and (not value or value + count > rate or lapsed > 0) then
  reconcile()
end
