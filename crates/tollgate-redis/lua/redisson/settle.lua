-- Where the limiter stands now. Plans and reads; nothing is written here but scores of a clock gone wrong.
--
-- gives    value    free permits, as they should be; `stored` is what the server has, nil if nothing
--          lapsed   how many of the oldest grants are out of the window (edge included)
--          score    of the oldest grant that is not, and `oldest` itself; nil if there is none
--          strange  the size of a grant that cannot be read
--          reckon   compares the value with the grants, and puts it right
local stored = tonumber(call('GET', value_key))
local value, lapsed, edge, strange = stored, 0, now - interval
local first = call('ZRANGE', permits_key, 0, 0, 'WITHSCORES')
local oldest, score = first[1], tonumber(first[2])
if score and score > now + interval and ARGV[2] == '' then
  -- More than a window ahead: whoever wrote this has a clock gone wrong, or ours was set back. It counts from now.
  local ahead = call('ZRANGEBYSCORE', permits_key, '(' .. format('%d', now + interval), '+inf')
  for i = 1, #ahead do
    call('ZADD', permits_key, 'XX', now, ahead[i])
  end
  first = call('ZRANGE', permits_key, 0, 0, 'WITHSCORES')
  oldest, score = first[1], tonumber(first[2])
end
if score and score <= edge then
  local gone = call('ZRANGEBYSCORE', permits_key, '-inf', edge)
  local freed
  freed, strange = sum(gone)
  lapsed = #gone
  first = call('ZRANGE', permits_key, lapsed, lapsed, 'WITHSCORES')
  oldest, score = first[1], tonumber(first[2])
  if value and freed then
    value = value + freed
  end
end
-- Grants of one permit each, the common case, are as many as permits are missing, and only the oldest is read. Else the
-- sum tells; above 64 grants only now and then, unless it is certain that something is wrong.
local function reckon()
  local count = call('ZCARD', permits_key) - lapsed
  if value == rate - count then
    local permits
    permits, strange = sum({oldest})
    if strange or permits == 1 then
      return
    end
  end
  if value and value < rate - count and count > 64 and clock % count >= 64 then
    return
  end
  local total
  total, strange = sum(call('ZRANGE', permits_key, lapsed, -1))
  if total then
    value = rate - total
  end
end
if not score then
  -- Nothing is taken, whatever the value says.
  value = rate
elseif not strange and (not value or value > rate or lapsed > 0) then
  reckon()
end
