-- Assembled from lua/charge.lua and lua/bucket.lua, lua/log.lua, lua/window.lua, with the files they include: a token bucket, a fixed window and a sliding log.
-- Redis runs what follows this header, without the indentation. Generated: edit the sources, see CONTRIBUTING.md.
#!lua
local call, unpack, pack, sub, format, concat, rep = redis.call, struct.unpack, struct.pack, string.sub, string.format, table.concat, string.rep
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
local deadline, id, due, tag_1, capacity_1, unit_1, drain_1, limit_2, per_2, align_2, limit_3, window_3, tolerance_1, tolerance_2, tolerance_3 = unpack('>ddddddddddddddd', ARGV[1])
local owed_1, owed_2, owed_3 = unpack('>ddd', ARGV[1], 121)
local listed = 145
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
local known = call('GET', KEYS[2])
local fresh = not known or tonumber(known) < id
local raw_1 = call('GET', KEYS[1])
local promised_1, since_1, until_1, moved_1 = 0, 0, 0, false
local at_1, used_1, base_1, level_1, free_1, go_1 = 0, 0
local at_2, used_2, start_2, level_2, free_2, go_2 = 0, 0
local bytes_3, from_3, count_3, last_3, dropped_3, line_3, total_3, moment_3, gone_3, left_3, tail_3, head_3, room_3, free_3, go_3
bytes_3, from_3, count_3, last_3, dropped_3, tail_3 = '', 1, 0, 0, 0, ''
if raw_1 then
  local size, pos = #raw_1, 42
  if size < 41 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  local found, _
  found, _, at_1, used_1, at_2, used_2 = unpack('>I6I7I7I7I7I7', raw_1)
  if found ~= tag_1 then
    if found ~= tag_1 + 1099511627776 or size < 41 + 21 then
      return pack('>I6I7I1', 4, now, 1) .. raw_1
    end
    promised_1, since_1, until_1, pos = unpack('>I7I7I7', raw_1, pos)
    local back = since_1 - now - 1000000
    if back > 0 then
      since_1, until_1, moved_1 = since_1 - back, until_1 - back, true
    end
  end
  if size < pos + 3 + 49 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  local length, total
  length, last_3, dropped_3, count_3 = unpack('>I4I7I5I4', raw_1, pos)
  total = unpack('>I5', raw_1, pos + 48)
  bytes_3, from_3 = raw_1, pos + 53
  pos = pos + 4 + length
  if length < 49 + count_3 * 12 or pos > size + 1 or total < dropped_3 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
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
  local back = at_2 - now - tolerance_2
  if back > 0 then
    at_2 = now - now % align_2
    if back > furthest then
      furthest = back
    end
  end
  local back = last_3 - now - tolerance_3
  if back > 0 then
    local moved = {}
    for entry = 0, count_3 - 1 do
      local at, total = unpack('>I7I5', bytes_3, from_3 + entry * 12)
      at = at - back
      if at < 0 then
        at = 0
      end
      moved[entry + 1] = pack('>I7I5', at, total)
    end
    bytes_3, from_3, last_3 = concat(moved), 1, last_3 - back
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
base_1, level_1 = now, used_1
if now > at_1 then
  level_1 = used_1 - (now - at_1) * drain_1
  if level_1 < 0 then
    level_1 = 0
  end
elseif used_1 > 0 then
  base_1 = at_1
end
start_2, level_2 = 0, 0
if used_2 > 0 then
  start_2, level_2 = at_2, used_2
  if now > at_2 then
    local ended = ((now - at_2) / per_2 - ((now - at_2) / per_2) % 1)
    start_2, level_2 = at_2 + ended * per_2, used_2 - ended * limit_2
  end
end
if level_2 <= 0 then
  start_2, level_2 = now - now % align_2, 0
end
if tail_3 ~= '' then
  bytes_3, from_3, count_3, tail_3 = sub(bytes_3, from_3, from_3 + count_3 * 12 - 1) .. tail_3, 1, count_3 + 1, ''
end
line_3, total_3, moment_3, gone_3, left_3 = 0, dropped_3, now, 0, dropped_3
if count_3 > 0 then
  line_3, total_3 = unpack('>I7I5', bytes_3, from_3 + (count_3 - 1) * 12)
  if last_3 > now then
    moment_3 = last_3
  end
  local edge = moment_3 - window_3
  local high = count_3
  while gone_3 < high do
    local middle = ((gone_3 + high) / 2 - ((gone_3 + high) / 2) % 1)
    if unpack('>I7', bytes_3, from_3 + middle * 12) <= edge then
      gone_3 = middle + 1
    else
      high = middle
    end
  end
  if gone_3 > 0 then
    left_3 = unpack('>I5', bytes_3, from_3 + gone_3 * 12 - 5)
  end
end
local new_1
if fresh then
  local ahead = false
  if owed_1 > 0 then
    local cost = owed_1
    if due > now then
      local moment = due
      ahead = true
      local drained = (moment - base_1) * drain_1
      if drained > level_1 then
        level_1 = drained
      end
      level_1 = level_1 + cost * unit_1
      at_1, used_1 = base_1, level_1
    else
      level_1 = level_1 + cost * unit_1
      if level_1 > 4503599627370495 then
        level_1 = 4503599627370495
      end
      at_1, used_1 = base_1, level_1
    end
  end
  if owed_2 > 0 then
    local cost = owed_2
    if due > now then
      local moment = due
      ahead = true
      local skipped = 0
      if moment > start_2 then
        skipped = ((moment - start_2) / per_2 - ((moment - start_2) / per_2) % 1) * limit_2
      end
      if skipped > level_2 then
        level_2 = skipped
      end
      level_2 = level_2 + cost
      at_2, used_2 = start_2, level_2
    else
      local full = limit_2
      if level_2 > limit_2 then
        full = (level_2 / limit_2 + -(level_2 / limit_2) % 1) * limit_2
      end
      level_2 = level_2 + cost
      if level_2 > full then
        level_2 = full
      end
      at_2, used_2 = start_2, level_2
    end
  end
  if owed_3 > 0 then
    local cost = owed_3
    if due > now then
      local moment = due
      ahead = true
      last_3 = moment_3
      if gone_3 > 0 and gone_3 * 2 >= count_3 then
        dropped_3, from_3, count_3, gone_3 = left_3, from_3 + gone_3 * 12, count_3 - gone_3, 0
        if count_3 == 0 then
          line_3, total_3, left_3, dropped_3 = 0, 0, 0, 0
        elseif dropped_3 >= 549755813888 then
          local rebased = {}
          for entry = 0, count_3 - 1 do
            local at, total = unpack('>I7I5', bytes_3, from_3 + entry * 12)
            rebased[entry + 1] = pack('>I7I5', at, total - dropped_3)
          end
          bytes_3, from_3 = concat(rebased), 1
          total_3, left_3, dropped_3 = total_3 - dropped_3, left_3 - dropped_3, 0
        end
      end
      local at, permits = moment, cost
      if last_3 > at then
        at = last_3
      end
      total_3 = total_3 + permits
      if total_3 > 1099511627775 then
        total_3 = 1099511627775
      end
      if tail_3 ~= '' then
        if line_3 < at then
          bytes_3, from_3, count_3 = sub(bytes_3, from_3, from_3 + count_3 * 12 - 1) .. tail_3, 1, count_3 + 1
          line_3 = at
        end
      elseif count_3 > 0 and line_3 >= at then
        count_3 = count_3 - 1
      else
        line_3 = at
      end
      tail_3 = pack('>I7I5', line_3, total_3)
    else
      last_3 = moment_3
      if gone_3 > 0 and gone_3 * 2 >= count_3 then
        dropped_3, from_3, count_3, gone_3 = left_3, from_3 + gone_3 * 12, count_3 - gone_3, 0
        if count_3 == 0 then
          line_3, total_3, left_3, dropped_3 = 0, 0, 0, 0
        elseif dropped_3 >= 549755813888 then
          local rebased = {}
          for entry = 0, count_3 - 1 do
            local at, total = unpack('>I7I5', bytes_3, from_3 + entry * 12)
            rebased[entry + 1] = pack('>I7I5', at, total - dropped_3)
          end
          bytes_3, from_3 = concat(rebased), 1
          total_3, left_3, dropped_3 = total_3 - dropped_3, left_3 - dropped_3, 0
        end
      end
      local at, permits = last_3, cost
      if permits > limit_3 then
        permits = limit_3
      end
      total_3 = total_3 + permits
      if total_3 > 1099511627775 then
        total_3 = 1099511627775
      end
      if tail_3 ~= '' then
        if line_3 < at then
          bytes_3, from_3, count_3 = sub(bytes_3, from_3, from_3 + count_3 * 12 - 1) .. tail_3, 1, count_3 + 1
          line_3 = at
        end
      elseif count_3 > 0 and line_3 >= at then
        count_3 = count_3 - 1
      else
        line_3 = at
      end
      tail_3 = pack('>I7I5', line_3, total_3)
    end
  end
  if ahead and due > promised_1 then
    promised_1 = due
  end
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
  do
    local rests = now
    if level_2 > 0 then
      rests = start_2 + (level_2 / limit_2 + -(level_2 / limit_2) % 1) * per_2
    end
    if rests > lives then
      lives = rests
    end
  end
  do
    local rests = now
    if total_3 > left_3 then
      rests = line_3 + window_3
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
      local entries, room = count_3 + #tail_3 / 12, 0
      local first, upto = 0, 0
      if gone_3 < count_3 then
        first, upto = unpack('>I7I5', bytes_3, from_3 + gone_3 * 12)
      elseif gone_3 < entries then
        first, upto = unpack('>I7I5', tail_3, (gone_3 - count_3) * 12 + 1)
      end
      head_3 = pack('>I4I7I5I4I4I5I7I5I7I5', 49 + (entries + room) * 12, last_3, dropped_3, entries, gone_3, left_3, first, upto, line_3,
      total_3)
      room_3 = rep('\0', room * 12)
    end
    if promised_1 > now or until_1 > now then
      new_1 = pack('>I6I7I7I7I7I7I7I7I7', tag_1 + 1099511627776, now, at_1, used_1, at_2, used_2, promised_1, since_1, until_1) .. head_3 .. sub(bytes_3, from_3, from_3 + count_3 * 12 - 1) .. tail_3 .. room_3
    else
      new_1 = pack('>I6I7I7I7I7I7', tag_1, now, at_1, used_1, at_2, used_2) .. head_3 .. sub(bytes_3, from_3, from_3 + count_3 * 12 - 1) .. tail_3 .. room_3
    end
    if far then
      call('SET', KEYS[1], new_1, 'PXAT', format('%d', lives + far))
    else
      call('SET', KEYS[1], new_1, 'PX', format('%d', lives))
    end
  end
  if lives < 0 then
    lives = 0
  end
  if far then
    call('SET', KEYS[2], format('%d', id), 'PXAT', format('%d', lives + 60000 + far))
  else
    call('SET', KEYS[2], format('%d', id), 'PX', format('%d', lives + 60000))
  end
elseif moved_1 then
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
  do
    local rests = now
    if level_2 > 0 then
      rests = start_2 + (level_2 / limit_2 + -(level_2 / limit_2) % 1) * per_2
    end
    if rests > lives then
      lives = rests
    end
  end
  do
    local rests = now
    if total_3 > left_3 then
      rests = line_3 + window_3
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
      local entries, room = count_3 + #tail_3 / 12, 0
      local first, upto = 0, 0
      if gone_3 < count_3 then
        first, upto = unpack('>I7I5', bytes_3, from_3 + gone_3 * 12)
      elseif gone_3 < entries then
        first, upto = unpack('>I7I5', tail_3, (gone_3 - count_3) * 12 + 1)
      end
      head_3 = pack('>I4I7I5I4I4I5I7I5I7I5', 49 + (entries + room) * 12, last_3, dropped_3, entries, gone_3, left_3, first, upto, line_3,
      total_3)
      room_3 = rep('\0', room * 12)
    end
    if promised_1 > now or until_1 > now then
      new_1 = pack('>I6I7I7I7I7I7I7I7I7', tag_1 + 1099511627776, now, at_1, used_1, at_2, used_2, promised_1, since_1, until_1) .. head_3 .. sub(bytes_3, from_3, from_3 + count_3 * 12 - 1) .. tail_3 .. room_3
    else
      new_1 = pack('>I6I7I7I7I7I7', tag_1, now, at_1, used_1, at_2, used_2) .. head_3 .. sub(bytes_3, from_3, from_3 + count_3 * 12 - 1) .. tail_3 .. room_3
    end
    if far then
      call('SET', KEYS[1], new_1, 'PXAT', format('%d', lives + far))
    else
      call('SET', KEYS[1], new_1, 'PX', format('%d', lives))
    end
  end
end
local reply = pack('>I6I7I7I1', 1, now, until_1, fresh and 1 or 0)
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
do
  local remaining, rests
  remaining, rests = 0, now
  if level_2 < limit_2 then
    remaining = limit_2 - level_2
  end
  if level_2 > 0 then
    rests = start_2 + (level_2 / limit_2 + -(level_2 / limit_2) % 1) * per_2
  end
  reply = reply .. pack('>I7I7', remaining, rests)
end
do
  local remaining, rests
  remaining, rests = 0, now
  if line_3 <= moment_3 and total_3 - left_3 < limit_3 then
    remaining = limit_3 - (total_3 - left_3)
  end
  if total_3 > left_3 then
    rests = line_3 + window_3
  end
  reply = reply .. pack('>I7I7', remaining, rests)
end
return reply
