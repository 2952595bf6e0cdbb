-- Assembled from lua/take.lua and lua/bucket.lua, with the files they include: a token bucket that may have allotments.
-- Redis runs what follows this header, without the indentation. Generated: edit the sources, see CONTRIBUTING.md.
#!lua
local call, unpack, pack, sub, format, concat = redis.call, struct.unpack, struct.pack, string.sub, string.format, table.concat
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
local deadline, cost, tag_1, capacity_1, unit_1, drain_1 = unpack('>dddddd', ARGV[1])
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
local raw_1 = call('GET', KEYS[1])
local fits
if cost > 0 then
  local found, _, at_1, used_1 = tag_1, 0, 0, 0
  if raw_1 then
    found = 0
    if #raw_1 == 27 then
      found, _, at_1, used_1 = unpack('>I6I7I7I7', raw_1)
    end
  end
  if found == tag_1 then
    local lives = 0
    fits = true
    if at_1 > now then
      fits = nil
    elseif fits then
      used_1 = used_1 - (now - at_1) * drain_1
      if used_1 < 0 then
        used_1 = 0
      end
      at_1, used_1 = now, used_1 + cost * unit_1
      fits = used_1 <= capacity_1
      local rests = now + (used_1 / drain_1 + -(used_1 / drain_1) % 1)
      if rests > lives then
        lives = rests
      end
    end
    if fits then
      lives = ((lives - now) / 1000 + -((lives - now) / 1000) % 1)
      local new = pack('>I6I7I7I7', tag_1, now, at_1, used_1)
      if far then
        call('SET', KEYS[1], new, 'PXAT', format('%d', lives + far))
      else
        call('SET', KEYS[1], new, 'PX', format('%d', lives))
      end
      return new
    end
  end
end
local max_wait, tolerance_1 = unpack('>dd', ARGV[1], 49)
local longest = max_wait
if fits == false and max_wait == 0 then
  return pack('>I6I7', 0, now) .. (raw_1 or '')
end
local promised_1, since_1, until_1, moved_1 = 0, 0, 0, false
local allotted_1, first_end_1, last_end_1, allotments_1, records_1 = 0, 0, 0, 0, ''
local at_1, used_1, base_1, level_1, free_1, go_1 = 0, 0
if raw_1 then
  local size, pos = #raw_1, 28
  if size < 27 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  local found, _
  found, _, at_1, used_1 = unpack('>I6I7I7I7', raw_1)
  if found ~= tag_1 then
    if found == tag_1 + 2199023255552 and size >= 27 + 41 then
      allotted_1, first_end_1, last_end_1, allotments_1 = unpack('>I5I7I7I1', raw_1, pos + 21)
      if size < 27 + 41 + allotments_1 * 27 then
        return pack('>I6I7I1', 4, now, 1) .. raw_1
      end
      records_1 = sub(raw_1, pos + 41, pos + 40 + allotments_1 * 27)
    elseif found ~= tag_1 + 1099511627776 or size < 27 + 21 then
      return pack('>I6I7I1', 4, now, 1) .. raw_1
    end
    promised_1, since_1, until_1, pos = unpack('>I7I7I7', raw_1, pos)
    if allotments_1 > 0 then
      pos = pos + 20 + allotments_1 * 27
    end
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
  if allotments_1 > 0 and (first_end_1 <= now or furthest > 0) then
    local live, records = {}, records_1
    allotted_1, first_end_1, last_end_1, allotments_1 = 0, 0, 0, 0
    for place = 1, #records, 27 do
      local id, seq, used, permits, ends = unpack('>I5I4I6I5I7', records, place)
      ends = ends - furthest
      if ends < 1 then
        ends = 1
      end
      if ends <= now then
        local moment = ends - 1
        if moment < 0 then
          moment = 0
        end
        if permits > 0 then
          local present = now
          do
            local now, cost, forgotten = moment, permits, false
            if at_1 > now then
              now = at_1
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
            if cost > 0 and not forgotten then
              level_1 = level_1 + cost * unit_1
              if level_1 > 4503599627370495 then
                level_1 = 4503599627370495
              end
              at_1, used_1 = base_1, level_1
            end
          end
        end
        permits = 0
      end
      if ends > now or promised_1 > now then
        allotments_1 = allotments_1 + 1
        live[allotments_1] = pack('>I5I4I6I5I7', id, seq, used, permits, ends)
        allotted_1 = allotted_1 + permits
        if first_end_1 == 0 or ends < first_end_1 then
          first_end_1 = ends
        end
        if ends > last_end_1 then
          last_end_1 = ends
        end
      end
    end
    records_1 = concat(live)
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
  if allotted_1 > 0 and cost > 0 then
    local asked = cost
    cost = cost + allotted_1
    if cost * unit_1 > capacity_1 then
      free_1 = now + (longest < max_wait and longest or max_wait) + 1
      if last_end_1 > free_1 then
        free_1 = last_end_1
      end
      go_1 = free_1
    else
      free_1 = now
      local over = level_1 + cost * unit_1 - capacity_1
      if over > 0 and cost > 0 then
        free_1 = base_1 + (over / drain_1 + -(over / drain_1) % 1)
      end
      go_1 = free_1
    end
    cost = asked
  else
    free_1 = now
    local over = level_1 + cost * unit_1 - capacity_1
    if over > 0 and cost > 0 then
      free_1 = base_1 + (over / drain_1 + -(over / drain_1) % 1)
    end
    go_1 = free_1
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
    if allotted_1 > 0 then
      rests = level_1 + allotted_1 * unit_1
      if rests > 4503599627370495 then
        rests = 4503599627370495
      end
      rests = last_end_1 + (rests / drain_1 + -(rests / drain_1) % 1)
      if rests > lives then
        lives = rests
      end
    end
  end
  if allotments_1 > 0 and last_end_1 > lives then
    lives = last_end_1
  end
  lives = ((lives - now) / 1000 + -((lives - now) / 1000) % 1)
  if lives <= 0 then
    call('DEL', KEYS[1])
  else
    if allotments_1 > 0 then
      if promised_1 <= now then
        promised_1 = 0
      end
      if until_1 <= now then
        since_1, until_1 = 0, 0
      end
      new_1 = pack('>I6I7I7I7I7I7I7I5I7I7I1', tag_1 + 2199023255552, now, at_1, used_1, promised_1, since_1, until_1, allotted_1, first_end_1,
      last_end_1, allotments_1) .. records_1
    elseif promised_1 > now or until_1 > now then
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
  if allotted_1 > 0 then
    local plain = rests
    remaining = remaining - allotted_1
    if remaining < 0 then
      remaining = 0
    end
    rests = level_1 + allotted_1 * unit_1
    if rests > 4503599627370495 then
      rests = 4503599627370495
    end
    rests = last_end_1 + (rests / drain_1 + -(rests / drain_1) % 1)
    if plain > rests then
      rests = plain
    end
  end
  reply = reply .. pack('>I7I7I7I7', free_1 + 1, go_1 < 0 and 0 or go_1, remaining, rests)
end
return reply
