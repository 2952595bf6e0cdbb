-- Assembled from lua/take.lua and lua/calendar.lua, with the files they include: a window of the calendar.
-- Redis runs what follows this header, without the indentation. Generated: edit the sources, see CONTRIBUTING.md.
#!lua
local call, unpack, pack, format = redis.call, struct.unpack, struct.pack, string.format
local function period_of(moment, unit, offset)
  local day = ((moment + offset) / 86400000000 - ((moment + offset) / 86400000000) % 1)
  if unit == 0 then
    return day
  elseif unit == 1 then
    return ((day + 3) / 7 - ((day + 3) / 7) % 1)
  end
  day = day + 719468
  local era = (day / 146097 - (day / 146097) % 1)
  local of_era = day - era * 146097
  local year = ((of_era - (of_era / 1460 - (of_era / 1460) % 1) + (of_era / 36524 - (of_era / 36524) % 1) - (of_era / 146096 - (of_era / 146096) % 1)) / 365 - ((of_era - (of_era / 1460 - (of_era / 1460) % 1) + (of_era / 36524 - (of_era / 36524) % 1) - (of_era / 146096 - (of_era / 146096) % 1)) / 365) % 1)
  local of_year = of_era - (365 * year + (year / 4 - (year / 4) % 1) - (year / 100 - (year / 100) % 1))
  return (era * 400 + year) * 12 + ((5 * of_year + 2) / 153 - ((5 * of_year + 2) / 153) % 1) + 2
end
local function begin_of(period, unit, offset)
  local day = period
  if unit == 1 then
    day = period * 7 - 3
  elseif unit == 2 then
    local from_march = period - 2
    local year = (from_march / 12 - (from_march / 12) % 1)
    local month = from_march - year * 12
    local era = (year / 400 - (year / 400) % 1)
    local of_era = year - era * 400
    day = era * 146097 + 365 * of_era + (of_era / 4 - (of_era / 4) % 1) - (of_era / 100 - (of_era / 100) % 1) + ((153 * month + 2) / 5 - ((153 * month + 2) / 5) % 1) - 719468
  end
  local begin = day * 86400000000 - offset
  if begin < 0 then
    return 0
  end
  return begin
end
local function later(start, windows, unit, offset)
  return begin_of(period_of(start, unit, offset) + windows, unit, offset)
end
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
local deadline, cost, tag_1, limit_1, unit_1, offset_1, max_wait, tolerance_1 = unpack('>dddddddd', ARGV[1])
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
local longest = max_wait
local raw_1 = call('GET', KEYS[1])
local promised_1, since_1, until_1, moved_1 = 0, 0, 0, false
local at_1, used_1, start_1, level_1, free_1, go_1 = 0, 0
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
    at_1 = later(now, 0, unit_1, offset_1)
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
start_1, level_1 = 0, 0
if used_1 > 0 then
  start_1, level_1 = at_1, used_1
  if now >= at_1 then
    local ended = period_of(now, unit_1, offset_1) - period_of(at_1, unit_1, offset_1)
    start_1, level_1 = later(at_1, ended, unit_1, offset_1), used_1 - ended * limit_1
  end
end
if level_1 <= 0 then
  start_1, level_1 = later(now, 0, unit_1, offset_1), 0
end
if cost > limit_1 then
  free_1, go_1 = -1, -1
  never = true
else
  free_1 = now
  if level_1 + cost > limit_1 and cost > 0 then
    free_1 = later(start_1, ((level_1 + cost) / limit_1 + -((level_1 + cost) / limit_1) % 1) - 1, unit_1, offset_1)
  end
  go_1 = free_1
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
    local skipped = 0
    if moment > start_1 then
      skipped = (period_of(moment, unit_1, offset_1) - period_of(start_1, unit_1, offset_1)) * limit_1
    end
    if skipped > level_1 then
      level_1 = skipped
    end
    level_1 = level_1 + cost
    at_1, used_1 = start_1, level_1
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
      rests = later(start_1, (level_1 / limit_1 + -(level_1 / limit_1) % 1), unit_1, offset_1)
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
  if level_1 < limit_1 then
    remaining = limit_1 - level_1
  end
  if level_1 > 0 then
    rests = later(start_1, (level_1 / limit_1 + -(level_1 / limit_1) % 1), unit_1, offset_1)
  end
  reply = reply .. pack('>I7I7I7I7', free_1 + 1, go_1 < 0 and 0 or go_1, remaining, rests)
end
return reply
