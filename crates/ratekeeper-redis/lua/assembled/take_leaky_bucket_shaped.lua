-- Assembled from lua/take.lua and lua/bucket.lua, with the files they include: a shaped leaky bucket.
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
local deadline, cost, tag_1, capacity_1, unit_1, drain_1, max_wait, longest, tolerance_1 = unpack('>ddddddddd', ARGV[1])
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
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
local free, go, blocked = now, now, 0
local never = false
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
  if level_1 > 0 and cost > 0 then
    local own = base_1 + (level_1 / drain_1 + -(level_1 / drain_1) % 1)
    if own > go_1 then
      go_1 = own
    end
  end
  if free_1 > free then
    free = free_1
  end
  if go_1 > go then
    go = go_1
  end
end
local refused = never or blocked > now or free - now > max_wait or go - now > longest
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
return reply
