-- Assembled from lua/amend.lua and lua/bucket.lua, with the files they include: a token bucket.
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
local deadline, verb, cost, at, tag_1, capacity_1, unit_1, drain_1, tolerance_1 = unpack('>ddddddddd', ARGV[1])
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
if verb == 7 then
  call('DEL', KEYS[1])
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
local held = false
base_1, level_1 = now, used_1
if now > at_1 then
  level_1 = used_1 - (now - at_1) * drain_1
  if level_1 < 0 then
    level_1 = 0
  end
elseif used_1 > 0 then
  base_1 = at_1
end
if verb == 1 and cost > 0 then
  local outstanding, last = promised_1 > now, false
  if outstanding and at >= 0 then
    local ahead = level_1 - capacity_1
    if ahead < 0 then
      ahead = 0
    end
    last = at > now and at + ((unit_1 / drain_1 - (unit_1 / drain_1) % 1) / 2 - ((unit_1 / drain_1 - (unit_1 / drain_1) % 1) / 2) % 1) >= base_1 + (ahead / drain_1 + -(ahead / drain_1) % 1)
  end
  local cancels = last
  last = last or not outstanding
  do
    if last then
      level_1 = level_1 - cost * unit_1
      if level_1 < 0 then
        level_1 = 0
      end
      at_1, used_1 = base_1, level_1
    end
  end
  if cancels then
    local furthest = 0
    do
      local ends = now
      if level_1 > capacity_1 then
        ends = base_1 + ((level_1 - capacity_1) / drain_1 + -((level_1 - capacity_1) / drain_1) % 1)
      end
      if ends > furthest then
        furthest = ends
      end
    end
    if furthest < promised_1 then
      promised_1 = furthest
    end
  end
  moved_1 = true
elseif verb == 2 and cost > 0 then
  do
    level_1 = level_1 + cost * unit_1
    if level_1 > 4503599627370495 then
      level_1 = 4503599627370495
    end
    at_1, used_1 = base_1, level_1
  end
  moved_1 = true
elseif verb == 3 then
  since_1, until_1 = 0, 0
  if cost > 0 then
    since_1, until_1 = now, now + cost
  end
  moved_1 = true
elseif verb == 4 then
  moved_1 = moved_1 or held
elseif verb == 5 then
  moved_1 = true
elseif verb == 6 then
  moved_1 = moved_1 or held
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
local reply = pack('>I6I7I7I1', 1, now, until_1, held and 1 or 0)
do
  local remaining, rests
  remaining, rests = 0, now
  if level_1 < capacity_1 then
    remaining = ((capacity_1 - level_1) / unit_1 - ((capacity_1 - level_1) / unit_1) % 1)
  end
  if level_1 > 0 then
    rests = base_1 + (level_1 / drain_1 + -(level_1 / drain_1) % 1)
  end
  reply = reply .. pack('>I7I7', remaining, rests)
end
return reply
