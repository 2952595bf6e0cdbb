-- Assembled from lua/take.lua and lua/rounded.lua, with the files they include: a token bucket with a rounded rate.
-- Redis runs what follows this header, without the indentation. Generated: edit the sources, see CONTRIBUTING.md.
#!lua
local call, unpack, pack, format = redis.call, struct.unpack, struct.pack, string.format
local function ratio(x, y, z)
  local quotient = (x * y / z - (x * y / z) % 1)
  local x_low, y_low, q_low, z_low = x % 67108864, y % 67108864, quotient % 67108864, z % 67108864
  local product = ((x - x_low) / 67108864 * y_low + (y - y_low) / 67108864 * x_low) % 67108864 * 67108864 + x_low * y_low
  local covered = ((quotient - q_low) / 67108864 * z_low + (z - z_low) / 67108864 * q_low) % 67108864 * 67108864
  + q_low * z_low
  local left = (product - covered) % 4503599627370496
  if left >= 2251799813685248 then
    return quotient - 1, left - 4503599627370496 + z
  elseif left >= z then
    return quotient + 1, left - z
  end
  return quotient, left
end
local function drained(from, to, drain, period)
  local before, after = from % period, to % period
  local units, _ = ratio(before, drain, period)
  return (to - after - from + before) / period * drain + ratio(after, drain, period) - units
end
local function drained_at(base, units, drain, period)
  local phase = base % period
  units = units + ratio(phase, drain, period)
  local part = units % drain
  local time, left = ratio(part, period, drain)
  if left > 0 then
    time = time + 1
  end
  return base - phase + (units - part) / drain * period + time
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
local deadline, cost, tag_1, capacity_1, unit_1, drain_1, period_1, half_1 = unpack('>dddddddd', ARGV[1])
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
      used_1 = used_1 - drained(at_1, now, drain_1, period_1)
      if used_1 < 0 then
        used_1 = 0
      end
      at_1, used_1 = now, used_1 + cost * unit_1
      fits = used_1 <= capacity_1
      local rests = drained_at(now, used_1, drain_1, period_1)
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
local max_wait, tolerance_1 = unpack('>dd', ARGV[1], 65)
local longest = max_wait
if fits == false and max_wait == 0 then
  return pack('>I6I7', 0, now) .. (raw_1 or '')
end
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
  level_1 = used_1 - drained(at_1, now, drain_1, period_1)
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
    free_1 = drained_at(base_1, over, drain_1, period_1)
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
    if moment > base_1 then
      local drained = drained(base_1, moment, drain_1, period_1)
      if drained > level_1 then
        level_1 = drained
      end
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
      rests = drained_at(base_1, level_1, drain_1, period_1)
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
    rests = drained_at(base_1, level_1, drain_1, period_1)
  end
  reply = reply .. pack('>I7I7I7I7', free_1 + 1, go_1 < 0 and 0 or go_1, remaining, rests)
end
return reply
