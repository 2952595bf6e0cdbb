-- Assembled from lua/take.lua and lua/bucket.lua, with the files they include: a token bucket on each of two keys.
-- Redis runs what follows this header, without the indentation. Generated: edit the sources, see CONTRIBUTING.md.
#!lua
local call, unpack, pack, format = redis.call, struct.unpack, struct.pack, string.format
local now, far = ARGV[2]
if now then
  now, far = tonumber(now), ARGV[3]
  if now > 4503599627370495 then
    now = 4503599627370495
  end
else
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local deadline, cost, tag_1, cost_1, capacity_1, unit_1, drain_1, tag_2, cost_2, capacity_2, unit_2, drain_2, max_wait, tolerance_1, tolerance_2 = unpack('>ddddddddddddddd', ARGV[1])
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
local longest = max_wait
local raw_1 = call('GET', KEYS[1])
local promised_1, since_1, until_1, moved_1 = 0, 0, 0, false
local at_1, used_1, base_1, level_1, free_1, go_1 = 0, 0
if raw_1 then
  local size, pos = #raw_1, 28
  if size < 27 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  local found, _
  found, _, at_1, used_1 = unpack('>I6I7I7I7', raw_1)
  if found ~= tag_1 then
    if found ~= tag_1 + 1099511627776 or size < 27 + 21 then
      return pack('>I6I7I1', 4, now, 1) .. raw_1
    end
    promised_1, since_1, until_1, pos = unpack('>I7I7I7', raw_1, pos)
    local back = since_1 - now - 1000000
    if back > 0 then
      since_1, until_1, moved_1 = since_1 - back, until_1 - back, true
    end
  end
  if pos ~= size + 1 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  local furthest = 0
  local back = at_1 - now - tolerance_1
  if back > 0 then
    at_1 = at_1 - back
    if back > furthest then
      furthest = back
    end
  end
  if furthest > 0 then
    moved_1 = true
    promised_1 = promised_1 - furthest
    if promised_1 < 0 then
      promised_1 = 0
    end
  end
end
local raw_2 = call('GET', KEYS[2])
local promised_2, since_2, until_2, moved_2 = 0, 0, 0, false
local at_2, used_2, base_2, level_2, free_2, go_2 = 0, 0
if raw_2 then
  local size, pos = #raw_2, 28
  if size < 27 then
    return pack('>I6I7I1', 4, now, 2) .. raw_2
  end
  local found, _
  found, _, at_2, used_2 = unpack('>I6I7I7I7', raw_2)
  if found ~= tag_2 then
    if found ~= tag_2 + 1099511627776 or size < 27 + 21 then
      return pack('>I6I7I1', 4, now, 2) .. raw_2
    end
    promised_2, since_2, until_2, pos = unpack('>I7I7I7', raw_2, pos)
    local back = since_2 - now - 1000000
    if back > 0 then
      since_2, until_2, moved_2 = since_2 - back, until_2 - back, true
    end
  end
  if pos ~= size + 1 then
    return pack('>I6I7I1', 4, now, 2) .. raw_2
  end
  local furthest = 0
  local back = at_2 - now - tolerance_2
  if back > 0 then
    at_2 = at_2 - back
    if back > furthest then
      furthest = back
    end
  end
  if furthest > 0 then
    moved_2 = true
    promised_2 = promised_2 - furthest
    if promised_2 < 0 then
      promised_2 = 0
    end
  end
end
local free, go, blocked = now, now, 0
local never = false
cost = cost_1
if until_1 > blocked then
  blocked = until_1
end
base_1, level_1 = now, used_1
if now > at_1 then
  level_1 = used_1 - (now - at_1) * drain_1
  if level_1 < 0 then
    level_1 = 0
  end
elseif used_1 > 0 then
  base_1 = at_1
end
if cost * unit_1 > capacity_1 then
  free_1, go_1 = -1, -1
  never = true
else
  free_1 = now
  local over = level_1 + cost * unit_1 - capacity_1
  if over > 0 and cost > 0 then
    free_1 = base_1 + (over / drain_1 + -(over / drain_1) % 1)
  end
  go_1 = free_1
  if free_1 > free then
    free = free_1
  end
  if go_1 > go then
    go = go_1
  end
end
cost = cost_2
if until_2 > blocked then
  blocked = until_2
end
base_2, level_2 = now, used_2
if now > at_2 then
  level_2 = used_2 - (now - at_2) * drain_2
  if level_2 < 0 then
    level_2 = 0
  end
elseif used_2 > 0 then
  base_2 = at_2
end
if cost * unit_2 > capacity_2 then
  free_2, go_2 = -1, -1
  never = true
else
  free_2 = now
  local over = level_2 + cost * unit_2 - capacity_2
  if over > 0 and cost > 0 then
    free_2 = base_2 + (over / drain_2 + -(over / drain_2) % 1)
  end
  go_2 = free_2
  if free_2 > free then
    free = free_2
  end
  if go_2 > go then
    go = go_2
  end
end
local refused = never or blocked > now or free - now > max_wait or go - now > longest
cost = cost_1
if not refused and cost > 0 then
  do
    local moment = go
    local drained = (moment - base_1) * drain_1
    if drained > level_1 then
      level_1 = drained
    end
    level_1 = level_1 + cost * unit_1
    at_1, used_1 = base_1, level_1
  end
  if go > now and go > promised_1 then
    promised_1 = go
  end
  moved_1 = true
end
cost = cost_2
if not refused and cost > 0 then
  do
    local moment = go
    local drained = (moment - base_2) * drain_2
    if drained > level_2 then
      level_2 = drained
    end
    level_2 = level_2 + cost * unit_2
    at_2, used_2 = base_2, level_2
  end
  if go > now and go > promised_2 then
    promised_2 = go
  end
  moved_2 = true
end
local new_1
if moved_1 then
  local lives = until_1
  if promised_1 > lives then
    lives = promised_1
  end
  do
    local rests = now
    if level_1 > 0 then
      rests = base_1 + (level_1 / drain_1 + -(level_1 / drain_1) % 1)
    end
    if rests > lives then
      lives = rests
    end
  end
  lives = ((lives - now) / 1000 + -((lives - now) / 1000) % 1)
  if lives <= 0 then
    call('DEL', KEYS[1])
  else
    if promised_1 > now or until_1 > now then
      new_1 = pack('>I6I7I7I7I7I7I7', tag_1 + 1099511627776, now, at_1, used_1, promised_1, since_1, until_1)
    else
      new_1 = pack('>I6I7I7I7', tag_1, now, at_1, used_1)
    end
    if far then
      call('SET', KEYS[1], new_1, 'PXAT', format('%d', lives + far))
    else
      call('SET', KEYS[1], new_1, 'PX', format('%d', lives))
    end
  end
end
local new_2
if moved_2 then
  local lives = until_2
  if promised_2 > lives then
    lives = promised_2
  end
  do
    local rests = now
    if level_2 > 0 then
      rests = base_2 + (level_2 / drain_2 + -(level_2 / drain_2) % 1)
    end
    if rests > lives then
      lives = rests
    end
  end
  lives = ((lives - now) / 1000 + -((lives - now) / 1000) % 1)
  if lives <= 0 then
    call('DEL', KEYS[2])
  else
    if promised_2 > now or until_2 > now then
      new_2 = pack('>I6I7I7I7I7I7I7', tag_2 + 1099511627776, now, at_2, used_2, promised_2, since_2, until_2)
    else
      new_2 = pack('>I6I7I7I7', tag_2, now, at_2, used_2)
    end
    if far then
      call('SET', KEYS[2], new_2, 'PXAT', format('%d', lives + far))
    else
      call('SET', KEYS[2], new_2, 'PX', format('%d', lives))
    end
  end
end
local reply = pack('>I6I7I7', refused and 2 or 1, now, blocked)
do
  local remaining, rests
  remaining, rests = 0, now
  if level_1 < capacity_1 then
    remaining = ((capacity_1 - level_1) / unit_1 - ((capacity_1 - level_1) / unit_1) % 1)
  end
  if level_1 > 0 then
    rests = base_1 + (level_1 / drain_1 + -(level_1 / drain_1) % 1)
  end
  reply = reply .. pack('>I7I7I7I7', free_1 + 1, go_1 < 0 and 0 or go_1, remaining, rests)
end
do
  local remaining, rests
  remaining, rests = 0, now
  if level_2 < capacity_2 then
    remaining = ((capacity_2 - level_2) / unit_2 - ((capacity_2 - level_2) / unit_2) % 1)
  end
  if level_2 > 0 then
    rests = base_2 + (level_2 / drain_2 + -(level_2 / drain_2) % 1)
  end
  reply = reply .. pack('>I7I7I7I7', free_2 + 1, go_2 < 0 and 0 or go_2, remaining, rests)
end
cost = cost_1
cost = cost_2
return reply
