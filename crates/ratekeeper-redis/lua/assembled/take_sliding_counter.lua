-- Assembled from lua/take.lua and lua/counter.lua, with the files they include: a sliding counter.
-- Redis runs what follows this header, without the indentation. Generated: edit the sources, see CONTRIBUTING.md.
#!lua
local call, unpack, pack, format, concat = redis.call, struct.unpack, struct.pack, string.format, table.concat
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
local deadline, cost, tag_1, limit_1, window_1, slice_1, max_wait, tolerance_1 = unpack('>dddddddd', ARGV[1])
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
local longest = max_wait
local raw_1 = call('GET', KEYS[1])
local promised_1, since_1, until_1, moved_1 = 0, 0, 0, false
local last_1, indexes_1, permits_1, count_1, moment_1, first_1, counted_1, line_1, packed_1, free_1, go_1
last_1, indexes_1, permits_1, count_1 = 0, {}, {}, 0
if raw_1 then
  local size, pos = #raw_1, 14
  if size < 13 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  local found, _
  found, _ = unpack('>I6I7', raw_1)
  if found ~= tag_1 then
    if found ~= tag_1 + 1099511627776 or size < 13 + 21 then
      return pack('>I6I7I1', 4, now, 1) .. raw_1
    end
    promised_1, since_1, until_1, pos = unpack('>I7I7I7', raw_1, pos)
    local back = since_1 - now - 1000000
    if back > 0 then
      since_1, until_1, moved_1 = since_1 - back, until_1 - back, true
    end
  end
  if size < pos + 3 + 7 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  local length
  length, last_1 = unpack('>I4I7', raw_1, pos)
  count_1 = (length - 7) / 14
  if length < 7 or pos + 4 + length > size + 1 or count_1 % 1 > 0 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  for slice = 1, count_1 do
    indexes_1[slice], permits_1[slice] = unpack('>I7I7', raw_1, pos + 11 + (slice - 1) * 14)
  end
  pos = pos + 4 + length
  if pos ~= size + 1 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  local furthest = 0
  local back = last_1 - now - tolerance_1
  if back > 0 then
    local by, newest, latest = (back / slice_1 - (back / slice_1) % 1), (now / slice_1 - (now / slice_1) % 1), (last_1 / slice_1 - (last_1 / slice_1) % 1)
    local indexes, permits, count = {}, {}, 0
    for slice = 1, count_1 do
      local index = indexes_1[slice] - by
      if index < 0 then
        index = 0
      end
      if indexes_1[slice] < latest and index > newest then
        index = newest
      end
      if count > 0 and indexes[count] >= index then
        permits[count] = permits[count] + permits_1[slice]
      else
        count = count + 1
        indexes[count], permits[count] = index, permits_1[slice]
      end
    end
    indexes_1, permits_1, count_1, last_1 = indexes, permits, count, last_1 - back
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
moment_1, first_1, counted_1, line_1 = now, 0, 0, 0
if count_1 > 0 then
  if last_1 > now then
    moment_1 = last_1
  end
  while first_1 < count_1 and (indexes_1[first_1 + 1] + 1) * slice_1 + window_1 <= moment_1 do
    first_1 = first_1 + 1
  end
  for slice = first_1 + 1, count_1 do
    counted_1 = counted_1 + permits_1[slice]
  end
  if first_1 < count_1 then
    line_1 = indexes_1[count_1] * slice_1
  end
end
if cost > limit_1 then
  free_1, go_1 = -1, -1
  never = true
else
  free_1 = now
  if cost > 0 and (counted_1 + cost > limit_1 or line_1 > moment_1) then
    free_1 = line_1
    if moment_1 > free_1 then
      free_1 = moment_1
    end
    local counted, slice = counted_1, first_1
    while counted + cost > limit_1 and slice < count_1 do
      slice = slice + 1
      counted = counted - permits_1[slice]
      local leaves = (indexes_1[slice] + 1) * slice_1 + window_1
      if leaves > free_1 then
        free_1 = leaves
      end
    end
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
    last_1 = moment_1
    if first_1 > 0 then
      local indexes, permits = {}, {}
      for slice = first_1 + 1, count_1 do
        indexes[slice - first_1], permits[slice - first_1] = indexes_1[slice], permits_1[slice]
      end
      indexes_1, permits_1, count_1, first_1 = indexes, permits, count_1 - first_1, 0
    end
    local index, permits = moment, cost
    if last_1 > index then
      index = last_1
    end
    index = (index / slice_1 - (index / slice_1) % 1)
    if count_1 > 0 and indexes_1[count_1] >= index then
      permits_1[count_1] = permits_1[count_1] + permits
    else
      count_1 = count_1 + 1
      indexes_1[count_1], permits_1[count_1] = index, permits
    end
    counted_1, line_1 = counted_1 + permits, indexes_1[count_1] * slice_1
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
    if first_1 < count_1 then
      rests = (indexes_1[count_1] + 1) * slice_1 + window_1
    end
    if rests > lives then
      lives = rests
    end
  end
  lives = ((lives - now) / 1000 + -((lives - now) / 1000) % 1)
  if lives <= 0 then
    call('DEL', KEYS[1])
  else
    do
      local slices = {}
      for slice = 1, count_1 do
        slices[slice] = pack('>I7I7', indexes_1[slice], permits_1[slice])
      end
      packed_1 = pack('>I4I7', 7 + count_1 * 14, last_1) .. concat(slices)
    end
    if promised_1 > now or until_1 > now then
      new_1 = pack('>I6I7I7I7I7', tag_1 + 1099511627776, now, promised_1, since_1, until_1) .. packed_1
    else
      new_1 = pack('>I6I7', tag_1, now) .. packed_1
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
  if line_1 <= moment_1 and counted_1 < limit_1 then
    remaining = limit_1 - counted_1
  end
  if first_1 < count_1 then
    rests = (indexes_1[count_1] + 1) * slice_1 + window_1
  end
  reply = reply .. pack('>I7I7I7I7', free_1 + 1, go_1 < 0 and 0 or go_1, remaining, rests)
end
return reply
