-- Assembled from lua/merge.lua and lua/log.lua, with the files they include: a sliding log.
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
local deadline, runs, tag_1, limit_1, window_1, tolerance_1 = unpack('>dddddd', ARGV[1])
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
if call('STRLEN', KEYS[1]) > 16384 then
  return pack('>I6I7', 7, now)
end
local raw_1 = call('GET', KEYS[1])
local promised_1, since_1, until_1, moved_1 = 0, 0, 0, false
local bytes_1, from_1, count_1, last_1, dropped_1, line_1, total_1, moment_1, gone_1, left_1, tail_1, head_1, room_1, free_1, go_1
bytes_1, from_1, count_1, last_1, dropped_1, tail_1 = '', 1, 0, 0, 0, ''
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
  if size < pos + 3 + 49 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  local length, total
  length, last_1, dropped_1, count_1 = unpack('>I4I7I5I4', raw_1, pos)
  total = unpack('>I5', raw_1, pos + 48)
  bytes_1, from_1 = raw_1, pos + 53
  pos = pos + 4 + length
  if length < 49 + count_1 * 12 or pos > size + 1 or total < dropped_1 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  if pos ~= size + 1 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  local furthest = 0
  local back = last_1 - now - tolerance_1
  if back > 0 then
    local moved = {}
    for entry = 0, count_1 - 1 do
      local at, total = unpack('>I7I5', bytes_1, from_1 + entry * 12)
      at = at - back
      if at < 0 then
        at = 0
      end
      moved[entry + 1] = pack('>I7I5', at, total)
    end
    bytes_1, from_1, last_1 = concat(moved), 1, last_1 - back
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
if tail_1 ~= '' then
  bytes_1, from_1, count_1, tail_1 = sub(bytes_1, from_1, from_1 + count_1 * 12 - 1) .. tail_1, 1, count_1 + 1, ''
end
line_1, total_1, moment_1, gone_1, left_1 = 0, dropped_1, now, 0, dropped_1
if count_1 > 0 then
  line_1, total_1 = unpack('>I7I5', bytes_1, from_1 + (count_1 - 1) * 12)
  if last_1 > now then
    moment_1 = last_1
  end
  local edge = moment_1 - window_1
  local high = count_1
  while gone_1 < high do
    local middle = ((gone_1 + high) / 2 - ((gone_1 + high) / 2) % 1)
    if unpack('>I7', bytes_1, from_1 + middle * 12) <= edge then
      gone_1 = middle + 1
    else
      high = middle
    end
  end
  if gone_1 > 0 then
    left_1 = unpack('>I5', bytes_1, from_1 + gone_1 * 12 - 5)
  end
end
local place = 49
for run = 1, runs do
  local count, cost, max_wait, longest = unpack('>dddd', ARGV[1], place)
  place = place + 32
  if moved_1 and promised_1 <= now and until_1 <= now then
    promised_1, since_1, until_1 = 0, 0, 0
  end
  if until_1 <= now then
    local fit = count
    do
      local remaining, rests
      remaining, rests = 0, now
      if line_1 <= moment_1 and total_1 - left_1 < limit_1 then
        remaining = limit_1 - (total_1 - left_1)
      end
      if total_1 > left_1 then
        rests = line_1 + window_1
      end
      remaining = (remaining / cost - (remaining / cost) % 1)
      if remaining < fit then
        fit = remaining
      end
    end
    if fit > 0 then
      local cost, moment = fit * cost, now
      do
        last_1 = moment_1
        if gone_1 > 0 and gone_1 * 2 >= count_1 then
          dropped_1, from_1, count_1, gone_1 = left_1, from_1 + gone_1 * 12, count_1 - gone_1, 0
          if count_1 == 0 then
            line_1, total_1, left_1, dropped_1 = 0, 0, 0, 0
          elseif dropped_1 >= 549755813888 then
            local rebased = {}
            for entry = 0, count_1 - 1 do
              local at, total = unpack('>I7I5', bytes_1, from_1 + entry * 12)
              rebased[entry + 1] = pack('>I7I5', at, total - dropped_1)
            end
            bytes_1, from_1 = concat(rebased), 1
            total_1, left_1, dropped_1 = total_1 - dropped_1, left_1 - dropped_1, 0
          end
        end
        local at, permits = moment, cost
        if last_1 > at then
          at = last_1
        end
        total_1 = total_1 + permits
        if total_1 > 1099511627775 then
          total_1 = 1099511627775
        end
        if tail_1 ~= '' then
          if line_1 < at then
            bytes_1, from_1, count_1 = sub(bytes_1, from_1, from_1 + count_1 * 12 - 1) .. tail_1, 1, count_1 + 1
            line_1 = at
          end
        elseif count_1 > 0 and line_1 >= at then
          count_1 = count_1 - 1
        else
          line_1 = at
        end
        tail_1 = pack('>I7I5', line_1, total_1)
      end
      count, moved_1 = count - fit, true
    end
  end
  while count > 0 do
    if moved_1 and promised_1 <= now and until_1 <= now then
      promised_1, since_1, until_1 = 0, 0, 0
    end
    local free, go, blocked = now, now, 0
    local never = false
    if until_1 > blocked then
      blocked = until_1
    end
    if tail_1 ~= '' then
      bytes_1, from_1, count_1, tail_1 = sub(bytes_1, from_1, from_1 + count_1 * 12 - 1) .. tail_1, 1, count_1 + 1, ''
    end
    line_1, total_1, moment_1, gone_1, left_1 = 0, dropped_1, now, 0, dropped_1
    if count_1 > 0 then
      line_1, total_1 = unpack('>I7I5', bytes_1, from_1 + (count_1 - 1) * 12)
      if last_1 > now then
        moment_1 = last_1
      end
      local edge = moment_1 - window_1
      local high = count_1
      while gone_1 < high do
        local middle = ((gone_1 + high) / 2 - ((gone_1 + high) / 2) % 1)
        if unpack('>I7', bytes_1, from_1 + middle * 12) <= edge then
          gone_1 = middle + 1
        else
          high = middle
        end
      end
      if gone_1 > 0 then
        left_1 = unpack('>I5', bytes_1, from_1 + gone_1 * 12 - 5)
      end
    end
    if cost > limit_1 then
      free_1, go_1 = -1, -1
      never = true
    else
      free_1 = now
      local must_leave = total_1 + cost - limit_1
      if cost > 0 and (must_leave > left_1 or line_1 > moment_1) then
        if must_leave > dropped_1 then
          local low, high = 0, count_1
          while low < high do
            local middle = ((low + high) / 2 - ((low + high) / 2) % 1)
            if unpack('>I5', bytes_1, from_1 + middle * 12 + 7) < must_leave then
              low = middle + 1
            else
              high = middle
            end
          end
          if low < count_1 then
            free_1 = unpack('>I7', bytes_1, from_1 + low * 12) + window_1
          elseif tail_1 ~= '' then
            free_1 = line_1 + window_1
          end
        end
        if line_1 > free_1 then
          free_1 = line_1
        end
        if moment_1 > free_1 then
          free_1 = moment_1
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
        if gone_1 > 0 and gone_1 * 2 >= count_1 then
          dropped_1, from_1, count_1, gone_1 = left_1, from_1 + gone_1 * 12, count_1 - gone_1, 0
          if count_1 == 0 then
            line_1, total_1, left_1, dropped_1 = 0, 0, 0, 0
          elseif dropped_1 >= 549755813888 then
            local rebased = {}
            for entry = 0, count_1 - 1 do
              local at, total = unpack('>I7I5', bytes_1, from_1 + entry * 12)
              rebased[entry + 1] = pack('>I7I5', at, total - dropped_1)
            end
            bytes_1, from_1 = concat(rebased), 1
            total_1, left_1, dropped_1 = total_1 - dropped_1, left_1 - dropped_1, 0
          end
        end
        local at, permits = moment, cost
        if last_1 > at then
          at = last_1
        end
        total_1 = total_1 + permits
        if total_1 > 1099511627775 then
          total_1 = 1099511627775
        end
        if tail_1 ~= '' then
          if line_1 < at then
            bytes_1, from_1, count_1 = sub(bytes_1, from_1, from_1 + count_1 * 12 - 1) .. tail_1, 1, count_1 + 1
            line_1 = at
          end
        elseif count_1 > 0 and line_1 >= at then
          count_1 = count_1 - 1
        else
          line_1 = at
        end
        tail_1 = pack('>I7I5', line_1, total_1)
      end
      if go > now and go > promised_1 then
        promised_1 = go
      end
      moved_1 = true
    end
    if refused then
      break
    end
    count = count - 1
  end
end
local new_1
if moved_1 then
  local lives = until_1
  if promised_1 > lives then
    lives = promised_1
  end
  do
    local rests = now
    if total_1 > left_1 then
      rests = line_1 + window_1
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
      local entries, room = count_1 + #tail_1 / 12, 0
      room = (entries / 8 - (entries / 8) % 1)
      local first, upto = 0, 0
      if gone_1 < count_1 then
        first, upto = unpack('>I7I5', bytes_1, from_1 + gone_1 * 12)
      elseif gone_1 < entries then
        first, upto = unpack('>I7I5', tail_1, (gone_1 - count_1) * 12 + 1)
      end
      head_1 = pack('>I4I7I5I4I4I5I7I5I7I5', 49 + (entries + room) * 12, last_1, dropped_1, entries, gone_1, left_1, first, upto, line_1,
      total_1)
      room_1 = rep('\0', room * 12)
    end
    if promised_1 > now or until_1 > now then
      new_1 = pack('>I6I7I7I7I7', tag_1 + 1099511627776, now, promised_1, since_1, until_1) .. head_1 .. sub(bytes_1, from_1, from_1 + count_1 * 12 - 1) .. tail_1 .. room_1
    else
      new_1 = pack('>I6I7', tag_1, now) .. head_1 .. sub(bytes_1, from_1, from_1 + count_1 * 12 - 1) .. tail_1 .. room_1
    end
    if far then
      call('SET', KEYS[1], new_1, 'PXAT', format('%d', lives + far))
    else
      call('SET', KEYS[1], new_1, 'PX', format('%d', lives))
    end
  end
end
return pack('>I6I7', 5, now) .. (raw_1 or '')
