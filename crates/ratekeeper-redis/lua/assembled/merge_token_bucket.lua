-- Assembled from lua/merge.lua and lua/bucket.lua, with the files they include: a token bucket.
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
local deadline, runs, tag_1, capacity_1, unit_1, drain_1, tolerance_1 = unpack('>ddddddd', ARGV[1])
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
base_1, level_1 = now, used_1
if now > at_1 then
  level_1 = used_1 - (now - at_1) * drain_1
  if level_1 < 0 then
    level_1 = 0
  end
elseif used_1 > 0 then
  base_1 = at_1
end
local place = 57
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
      if level_1 < capacity_1 then
        remaining = ((capacity_1 - level_1) / unit_1 - ((capacity_1 - level_1) / unit_1) % 1)
      end
      if level_1 > 0 then
        rests = base_1 + (level_1 / drain_1 + -(level_1 / drain_1) % 1)
      end
      remaining = (remaining / cost - (remaining / cost) % 1)
      if remaining < fit then
        fit = remaining
      end
    end
    if fit > 0 then
      local cost, moment = fit * cost, now
      do
        local drained = (moment - base_1) * drain_1
        if drained > level_1 then
          level_1 = drained
        end
        level_1 = level_1 + cost * unit_1
        at_1, used_1 = base_1, level_1
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
return pack('>I6I7', 5, now) .. (raw_1 or '')
