-- Assembled from lua/charge.lua and lua/leases.lua, with the files they include: a concurrency rule.
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
local deadline, id, due, tag_1, limit_1, lease_1, tolerance_1 = unpack('>ddddddd', ARGV[1])
local owed_1 = unpack('>d', ARGV[1], 57)
local listed = 65
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
local known = call('GET', KEYS[2])
local fresh = not known or tonumber(known) < id
local raw_1 = call('GET', KEYS[1])
local promised_1, since_1, until_1, moved_1 = 0, 0, 0, false
local last_1, ids_1, permits_1, untils_1, count_1, moment_1, first_1, held_1, line_1, packed_1, free_1, go_1
last_1, ids_1, permits_1, untils_1, count_1 = 0, {}, {}, {}, 0
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
  count_1 = (length - 7) / 17
  if length < 7 or pos + 4 + length > size + 1 or count_1 % 1 > 0 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  for one = 1, count_1 do
    ids_1[one], permits_1[one], untils_1[one] = unpack('>I7I3I7', raw_1, pos + 11 + (one - 1) * 17)
  end
  pos = pos + 4 + length
  if pos ~= size + 1 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  local furthest = 0
  local back = last_1 - now - tolerance_1
  if back > 0 then
    for one = 1, count_1 do
      untils_1[one] = untils_1[one] - back
      if untils_1[one] < 0 then
        untils_1[one] = 0
      end
    end
    last_1 = last_1 - back
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
moment_1, first_1, held_1, line_1 = now, 0, 0, 0
if count_1 > 0 then
  if last_1 > now then
    moment_1 = last_1
  end
  while first_1 < count_1 and untils_1[first_1 + 1] <= moment_1 do
    first_1 = first_1 + 1
  end
  for one = first_1 + 1, count_1 do
    held_1 = held_1 + permits_1[one]
  end
  line_1 = untils_1[count_1] - lease_1
end
local new_1
if fresh then
  local ahead = false
  do
    local count
    local joins, parts = {}, {}
    count, listed = unpack('>I4', ARGV[1], listed)
    for one = 1, count do
      local id, permits, ends
      id, permits, ends, listed = unpack('>I7I3I7', ARGV[1], listed)
      joins[one] = { id, permits, ends }
    end
    count, listed = unpack('>I4', ARGV[1], listed)
    for one = 1, count do
      parts[one], listed = unpack('>I7', ARGV[1], listed)
    end
    if #joins + #parts > 0 then
      last_1 = moment_1
      if first_1 > 0 then
        local ids, permits, untils = {}, {}, {}
        for one = first_1 + 1, count_1 do
          ids[one - first_1], permits[one - first_1], untils[one - first_1] = ids_1[one], permits_1[one], untils_1[one]
        end
        ids_1, permits_1, untils_1, count_1, first_1 = ids, permits, untils, count_1 - first_1, 0
      end
      for one = 1, #parts do
        local lease = parts[one]
        local found = 0
        for one = 1, count_1 do
          if ids_1[one] == lease then
            found = one
            break
          end
        end
        if found > 0 then
          for one = found, count_1 do
            ids_1[one], permits_1[one], untils_1[one] = ids_1[one + 1], permits_1[one + 1], untils_1[one + 1]
          end
          count_1 = count_1 - 1
        end
      end
      for one = 1, #joins do
        local lease, permits, ends = joins[one][1], joins[one][2], joins[one][3]
        if ends > last_1 then
          local id = lease
          local found = 0
          for one = 1, count_1 do
            if ids_1[one] == lease then
              found = one
              break
            end
          end
          if found > 0 then
            if untils_1[found] > ends then
              ends = untils_1[found]
            end
            for one = found, count_1 do
              ids_1[one], permits_1[one], untils_1[one] = ids_1[one + 1], permits_1[one + 1], untils_1[one + 1]
            end
            count_1 = count_1 - 1
          end
          do
            local place = count_1 + 1
            while place > 1 and untils_1[place - 1] > ends do
              ids_1[place], permits_1[place], untils_1[place] = ids_1[place - 1], permits_1[place - 1], untils_1[place - 1]
              place = place - 1
            end
            ids_1[place], permits_1[place], untils_1[place] = id, permits, ends
            count_1 = count_1 + 1
          end
        end
      end
      moment_1, first_1, held_1, line_1 = now, 0, 0, 0
      if count_1 > 0 then
        if last_1 > now then
          moment_1 = last_1
        end
        while first_1 < count_1 and untils_1[first_1 + 1] <= moment_1 do
          first_1 = first_1 + 1
        end
        for one = first_1 + 1, count_1 do
          held_1 = held_1 + permits_1[one]
        end
        line_1 = untils_1[count_1] - lease_1
      end
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
    if held_1 > 0 then
      rests = untils_1[count_1]
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
      local leases = {}
      for one = 1, count_1 do
        leases[one] = pack('>I7I3I7', ids_1[one], permits_1[one], untils_1[one])
      end
      packed_1 = pack('>I4I7', 7 + count_1 * 17, last_1) .. concat(leases)
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
    if held_1 > 0 then
      rests = untils_1[count_1]
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
      local leases = {}
      for one = 1, count_1 do
        leases[one] = pack('>I7I3I7', ids_1[one], permits_1[one], untils_1[one])
      end
      packed_1 = pack('>I4I7', 7 + count_1 * 17, last_1) .. concat(leases)
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
local reply = pack('>I6I7I7I1', 1, now, until_1, fresh and 1 or 0)
do
  local remaining, rests
  remaining, rests = 0, now
  if line_1 <= moment_1 and held_1 < limit_1 then
    remaining = limit_1 - held_1
  end
  if held_1 > 0 then
    rests = untils_1[count_1]
  end
  reply = reply .. pack('>I7I7', remaining, rests)
end
return reply
