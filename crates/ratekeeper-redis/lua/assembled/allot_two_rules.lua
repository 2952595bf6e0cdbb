-- Assembled from lua/allot.lua and lua/log.lua, lua/window.lua, with the files they include: a fixed window and a sliding log.
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
local deadline, runs, id, seq, used, acknowledged, keep, used_by, ends, want, hold, tag_1, limit_1, per_1, align_1, limit_2, window_2, tolerance_1, tolerance_2 = unpack('>ddddddddddddddddddd', ARGV[1])
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
local raw_1 = call('GET', KEYS[1])
local promised_1, since_1, until_1, moved_1 = 0, 0, 0, false
local allotted_1, first_end_1, last_end_1, allotments_1, records_1 = 0, 0, 0, 0, ''
local at_1, used_1, start_1, level_1, free_1, go_1 = 0, 0
local bytes_2, from_2, count_2, last_2, dropped_2, line_2, total_2, moment_2, gone_2, left_2, tail_2, head_2, room_2, free_2, go_2
bytes_2, from_2, count_2, last_2, dropped_2, tail_2 = '', 1, 0, 0, 0, ''
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
  if size < pos + 3 + 49 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  local length, total
  length, last_2, dropped_2, count_2 = unpack('>I4I7I5I4', raw_1, pos)
  total = unpack('>I5', raw_1, pos + 48)
  bytes_2, from_2 = raw_1, pos + 53
  pos = pos + 4 + length
  if length < 49 + count_2 * 12 or pos > size + 1 or total < dropped_2 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  if pos ~= size + 1 then
    return pack('>I6I7I1', 4, now, 1) .. raw_1
  end
  local furthest = 0
  local back = at_1 - now - tolerance_1
  if back > 0 then
    at_1 = now - now % align_1
    if back > furthest then
      furthest = back
    end
  end
  local back = last_2 - now - tolerance_2
  if back > 0 then
    local moved = {}
    for entry = 0, count_2 - 1 do
      local at, total = unpack('>I7I5', bytes_2, from_2 + entry * 12)
      at = at - back
      if at < 0 then
        at = 0
      end
      moved[entry + 1] = pack('>I7I5', at, total)
    end
    bytes_2, from_2, last_2 = concat(moved), 1, last_2 - back
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
            start_1, level_1 = 0, 0
            if used_1 > 0 then
              start_1, level_1 = at_1, used_1
              if now > at_1 then
                local ended = ((now - at_1) / per_1 - ((now - at_1) / per_1) % 1)
                start_1, level_1 = at_1 + ended * per_1, used_1 - ended * limit_1
              end
            end
            if level_1 <= 0 then
              start_1, level_1 = now - now % align_1, 0
            end
            forgotten = start_1 > moment and start_1 <= present
            if cost > 0 and not forgotten then
              local full = limit_1
              if level_1 > limit_1 then
                full = (level_1 / limit_1 + -(level_1 / limit_1) % 1) * limit_1
              end
              level_1 = level_1 + cost
              if level_1 > full then
                level_1 = full
              end
              at_1, used_1 = start_1, level_1
            end
          end
          do
            local now, cost, forgotten = moment, permits, false
            if tail_2 ~= '' then
              bytes_2, from_2, count_2, tail_2 = sub(bytes_2, from_2, from_2 + count_2 * 12 - 1) .. tail_2, 1, count_2 + 1, ''
            end
            line_2, total_2, moment_2, gone_2, left_2 = 0, dropped_2, now, 0, dropped_2
            if count_2 > 0 then
              line_2, total_2 = unpack('>I7I5', bytes_2, from_2 + (count_2 - 1) * 12)
              if last_2 > now then
                moment_2 = last_2
              end
              local edge = moment_2 - window_2
              local high = count_2
              while gone_2 < high do
                local middle = ((gone_2 + high) / 2 - ((gone_2 + high) / 2) % 1)
                if unpack('>I7', bytes_2, from_2 + middle * 12) <= edge then
                  gone_2 = middle + 1
                else
                  high = middle
                end
              end
              if gone_2 > 0 then
                left_2 = unpack('>I5', bytes_2, from_2 + gone_2 * 12 - 5)
              end
            end
            if cost > 0 and not forgotten then
              last_2 = moment_2
              if gone_2 > 0 and gone_2 * 2 >= count_2 then
                dropped_2, from_2, count_2, gone_2 = left_2, from_2 + gone_2 * 12, count_2 - gone_2, 0
                if count_2 == 0 then
                  line_2, total_2, left_2, dropped_2 = 0, 0, 0, 0
                elseif dropped_2 >= 549755813888 then
                  local rebased = {}
                  for entry = 0, count_2 - 1 do
                    local at, total = unpack('>I7I5', bytes_2, from_2 + entry * 12)
                    rebased[entry + 1] = pack('>I7I5', at, total - dropped_2)
                  end
                  bytes_2, from_2 = concat(rebased), 1
                  total_2, left_2, dropped_2 = total_2 - dropped_2, left_2 - dropped_2, 0
                end
              end
              local at, permits = last_2, cost
              if permits > limit_2 then
                permits = limit_2
              end
              total_2 = total_2 + permits
              if total_2 > 1099511627775 then
                total_2 = 1099511627775
              end
              if tail_2 ~= '' then
                if line_2 < at then
                  bytes_2, from_2, count_2 = sub(bytes_2, from_2, from_2 + count_2 * 12 - 1) .. tail_2, 1, count_2 + 1
                  line_2 = at
                end
              elseif count_2 > 0 and line_2 >= at then
                count_2 = count_2 - 1
              else
                line_2 = at
              end
              tail_2 = pack('>I7I5', line_2, total_2)
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
local own, own_seq, own_used, own_ends, others, first, last = 0, 0, 0, 0, 0, 0, 0
for place = 1, #records_1, 27 do
  local found, found_seq, found_used, permits, found_ends = unpack('>I5I4I6I5I7', records_1, place)
  if found == id then
    own, own_seq, own_used, own_ends = place, found_seq, found_used, found_ends
  else
    others = others + permits
    if first == 0 or found_ends < first then
      first = found_ends
    end
    if found_ends > last then
      last = found_ends
    end
  end
end
if own > 0 and seq <= own_seq then
  return pack('>I6I7', 5, now) .. (raw_1 or '')
end
do
  local permits, moment = 0, used_by
  if moment > now then
    moment = now
  end
  if own > 0 and own_ends > now then
    permits = used - own_used
    if own_ends - 1 < moment then
      moment = own_ends - 1
    end
    moved_1 = true
  elseif own == 0 and ends > now then
    permits = used - acknowledged
    moved_1 = moved_1 or permits > 0
  else
    keep = 0
  end
  if permits > 0 then
    local present = now
    do
      local now, cost, forgotten = moment, permits, false
      start_1, level_1 = 0, 0
      if used_1 > 0 then
        start_1, level_1 = at_1, used_1
        if now > at_1 then
          local ended = ((now - at_1) / per_1 - ((now - at_1) / per_1) % 1)
          start_1, level_1 = at_1 + ended * per_1, used_1 - ended * limit_1
        end
      end
      if level_1 <= 0 then
        start_1, level_1 = now - now % align_1, 0
      end
      forgotten = start_1 > moment and start_1 <= present
      if cost > 0 and not forgotten then
        local full = limit_1
        if level_1 > limit_1 then
          full = (level_1 / limit_1 + -(level_1 / limit_1) % 1) * limit_1
        end
        level_1 = level_1 + cost
        if level_1 > full then
          level_1 = full
        end
        at_1, used_1 = start_1, level_1
      end
    end
    do
      local now, cost, forgotten = moment, permits, false
      if tail_2 ~= '' then
        bytes_2, from_2, count_2, tail_2 = sub(bytes_2, from_2, from_2 + count_2 * 12 - 1) .. tail_2, 1, count_2 + 1, ''
      end
      line_2, total_2, moment_2, gone_2, left_2 = 0, dropped_2, now, 0, dropped_2
      if count_2 > 0 then
        line_2, total_2 = unpack('>I7I5', bytes_2, from_2 + (count_2 - 1) * 12)
        if last_2 > now then
          moment_2 = last_2
        end
        local edge = moment_2 - window_2
        local high = count_2
        while gone_2 < high do
          local middle = ((gone_2 + high) / 2 - ((gone_2 + high) / 2) % 1)
          if unpack('>I7', bytes_2, from_2 + middle * 12) <= edge then
            gone_2 = middle + 1
          else
            high = middle
          end
        end
        if gone_2 > 0 then
          left_2 = unpack('>I5', bytes_2, from_2 + gone_2 * 12 - 5)
        end
      end
      if cost > 0 and not forgotten then
        last_2 = moment_2
        if gone_2 > 0 and gone_2 * 2 >= count_2 then
          dropped_2, from_2, count_2, gone_2 = left_2, from_2 + gone_2 * 12, count_2 - gone_2, 0
          if count_2 == 0 then
            line_2, total_2, left_2, dropped_2 = 0, 0, 0, 0
          elseif dropped_2 >= 549755813888 then
            local rebased = {}
            for entry = 0, count_2 - 1 do
              local at, total = unpack('>I7I5', bytes_2, from_2 + entry * 12)
              rebased[entry + 1] = pack('>I7I5', at, total - dropped_2)
            end
            bytes_2, from_2 = concat(rebased), 1
            total_2, left_2, dropped_2 = total_2 - dropped_2, left_2 - dropped_2, 0
          end
        end
        local at, permits = last_2, cost
        if permits > limit_2 then
          permits = limit_2
        end
        total_2 = total_2 + permits
        if total_2 > 1099511627775 then
          total_2 = 1099511627775
        end
        if tail_2 ~= '' then
          if line_2 < at then
            bytes_2, from_2, count_2 = sub(bytes_2, from_2, from_2 + count_2 * 12 - 1) .. tail_2, 1, count_2 + 1
            line_2 = at
          end
        elseif count_2 > 0 and line_2 >= at then
          count_2 = count_2 - 1
        else
          line_2 = at
        end
        tail_2 = pack('>I7I5', line_2, total_2)
      end
    end
  end
end
allotted_1, last_end_1 = others + keep, last
if keep > 0 and now + hold > last_end_1 then
  last_end_1 = now + hold
end
start_1, level_1 = 0, 0
if used_1 > 0 then
  start_1, level_1 = at_1, used_1
  if now > at_1 then
    local ended = ((now - at_1) / per_1 - ((now - at_1) / per_1) % 1)
    start_1, level_1 = at_1 + ended * per_1, used_1 - ended * limit_1
  end
end
if level_1 <= 0 then
  start_1, level_1 = now - now % align_1, 0
end
if tail_2 ~= '' then
  bytes_2, from_2, count_2, tail_2 = sub(bytes_2, from_2, from_2 + count_2 * 12 - 1) .. tail_2, 1, count_2 + 1, ''
end
line_2, total_2, moment_2, gone_2, left_2 = 0, dropped_2, now, 0, dropped_2
if count_2 > 0 then
  line_2, total_2 = unpack('>I7I5', bytes_2, from_2 + (count_2 - 1) * 12)
  if last_2 > now then
    moment_2 = last_2
  end
  local edge = moment_2 - window_2
  local high = count_2
  while gone_2 < high do
    local middle = ((gone_2 + high) / 2 - ((gone_2 + high) / 2) % 1)
    if unpack('>I7', bytes_2, from_2 + middle * 12) <= edge then
      gone_2 = middle + 1
    else
      high = middle
    end
  end
  if gone_2 > 0 then
    left_2 = unpack('>I5', bytes_2, from_2 + gone_2 * 12 - 5)
  end
end
local place = 153
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
      if level_1 < limit_1 then
        remaining = limit_1 - level_1
      end
      if level_1 > 0 then
        rests = start_1 + (level_1 / limit_1 + -(level_1 / limit_1) % 1) * per_1
      end
      if allotted_1 > 0 then
        local plain = rests
        remaining = remaining - allotted_1
        if remaining < 0 then
          remaining = 0
        end
        local from, windows = last_end_1 - last_end_1 % align_1, 1
        if start_1 > from then
          from = start_1
        end
        if level_1 > limit_1 then
          windows = (level_1 / limit_1 + -(level_1 / limit_1) % 1)
        end
        rests = from + windows * per_1
        if plain > rests then
          rests = plain
        end
      end
      remaining = (remaining / cost - (remaining / cost) % 1)
      if remaining < fit then
        fit = remaining
      end
    end
    do
      local remaining, rests
      remaining, rests = 0, now
      if line_2 <= moment_2 and total_2 - left_2 < limit_2 then
        remaining = limit_2 - (total_2 - left_2)
      end
      if total_2 > left_2 then
        rests = line_2 + window_2
      end
      if allotted_1 > 0 then
        local plain = rests
        remaining = remaining - allotted_1
        if remaining < 0 then
          remaining = 0
        end
        rests = line_2
        if last_end_1 > rests then
          rests = last_end_1
        end
        rests = rests + window_2
        if plain > rests then
          rests = plain
        end
      end
      remaining = (remaining / cost - (remaining / cost) % 1)
      if remaining < fit then
        fit = remaining
      end
    end
    if fit > 0 then
      local cost, moment = fit * cost, now
      do
        local skipped = 0
        if moment > start_1 then
          skipped = ((moment - start_1) / per_1 - ((moment - start_1) / per_1) % 1) * limit_1
        end
        if skipped > level_1 then
          level_1 = skipped
        end
        level_1 = level_1 + cost
        at_1, used_1 = start_1, level_1
      end
      do
        last_2 = moment_2
        if gone_2 > 0 and gone_2 * 2 >= count_2 then
          dropped_2, from_2, count_2, gone_2 = left_2, from_2 + gone_2 * 12, count_2 - gone_2, 0
          if count_2 == 0 then
            line_2, total_2, left_2, dropped_2 = 0, 0, 0, 0
          elseif dropped_2 >= 549755813888 then
            local rebased = {}
            for entry = 0, count_2 - 1 do
              local at, total = unpack('>I7I5', bytes_2, from_2 + entry * 12)
              rebased[entry + 1] = pack('>I7I5', at, total - dropped_2)
            end
            bytes_2, from_2 = concat(rebased), 1
            total_2, left_2, dropped_2 = total_2 - dropped_2, left_2 - dropped_2, 0
          end
        end
        local at, permits = moment, cost
        if last_2 > at then
          at = last_2
        end
        total_2 = total_2 + permits
        if total_2 > 1099511627775 then
          total_2 = 1099511627775
        end
        if tail_2 ~= '' then
          if line_2 < at then
            bytes_2, from_2, count_2 = sub(bytes_2, from_2, from_2 + count_2 * 12 - 1) .. tail_2, 1, count_2 + 1
            line_2 = at
          end
        elseif count_2 > 0 and line_2 >= at then
          count_2 = count_2 - 1
        else
          line_2 = at
        end
        tail_2 = pack('>I7I5', line_2, total_2)
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
    start_1, level_1 = 0, 0
    if used_1 > 0 then
      start_1, level_1 = at_1, used_1
      if now > at_1 then
        local ended = ((now - at_1) / per_1 - ((now - at_1) / per_1) % 1)
        start_1, level_1 = at_1 + ended * per_1, used_1 - ended * limit_1
      end
    end
    if level_1 <= 0 then
      start_1, level_1 = now - now % align_1, 0
    end
    if cost > limit_1 then
      free_1, go_1 = -1, -1
      never = true
    else
      if allotted_1 > 0 and cost > 0 then
        local asked = cost
        cost = cost + allotted_1
        if cost > limit_1 then
          free_1 = now + (longest < max_wait and longest or max_wait) + 1
          if last_end_1 > free_1 then
            free_1 = last_end_1
          end
          go_1 = free_1
        else
          free_1 = now
          if level_1 + cost > limit_1 and cost > 0 then
            free_1 = start_1 + (((level_1 + cost) / limit_1 + -((level_1 + cost) / limit_1) % 1) - 1) * per_1
          end
          go_1 = free_1
        end
        cost = asked
      else
        free_1 = now
        if level_1 + cost > limit_1 and cost > 0 then
          free_1 = start_1 + (((level_1 + cost) / limit_1 + -((level_1 + cost) / limit_1) % 1) - 1) * per_1
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
    if tail_2 ~= '' then
      bytes_2, from_2, count_2, tail_2 = sub(bytes_2, from_2, from_2 + count_2 * 12 - 1) .. tail_2, 1, count_2 + 1, ''
    end
    line_2, total_2, moment_2, gone_2, left_2 = 0, dropped_2, now, 0, dropped_2
    if count_2 > 0 then
      line_2, total_2 = unpack('>I7I5', bytes_2, from_2 + (count_2 - 1) * 12)
      if last_2 > now then
        moment_2 = last_2
      end
      local edge = moment_2 - window_2
      local high = count_2
      while gone_2 < high do
        local middle = ((gone_2 + high) / 2 - ((gone_2 + high) / 2) % 1)
        if unpack('>I7', bytes_2, from_2 + middle * 12) <= edge then
          gone_2 = middle + 1
        else
          high = middle
        end
      end
      if gone_2 > 0 then
        left_2 = unpack('>I5', bytes_2, from_2 + gone_2 * 12 - 5)
      end
    end
    if cost > limit_2 then
      free_2, go_2 = -1, -1
      never = true
    else
      if allotted_1 > 0 and cost > 0 then
        local asked = cost
        cost = cost + allotted_1
        if cost > limit_2 then
          free_2 = now + (longest < max_wait and longest or max_wait) + 1
          if last_end_1 > free_2 then
            free_2 = last_end_1
          end
          go_2 = free_2
        else
          free_2 = now
          local must_leave = total_2 + cost - limit_2
          if cost > 0 and (must_leave > left_2 or line_2 > moment_2) then
            if must_leave > dropped_2 then
              local low, high = 0, count_2
              while low < high do
                local middle = ((low + high) / 2 - ((low + high) / 2) % 1)
                if unpack('>I5', bytes_2, from_2 + middle * 12 + 7) < must_leave then
                  low = middle + 1
                else
                  high = middle
                end
              end
              if low < count_2 then
                free_2 = unpack('>I7', bytes_2, from_2 + low * 12) + window_2
              elseif tail_2 ~= '' then
                free_2 = line_2 + window_2
              end
            end
            if line_2 > free_2 then
              free_2 = line_2
            end
            if moment_2 > free_2 then
              free_2 = moment_2
            end
          end
          go_2 = free_2
        end
        cost = asked
      else
        free_2 = now
        local must_leave = total_2 + cost - limit_2
        if cost > 0 and (must_leave > left_2 or line_2 > moment_2) then
          if must_leave > dropped_2 then
            local low, high = 0, count_2
            while low < high do
              local middle = ((low + high) / 2 - ((low + high) / 2) % 1)
              if unpack('>I5', bytes_2, from_2 + middle * 12 + 7) < must_leave then
                low = middle + 1
              else
                high = middle
              end
            end
            if low < count_2 then
              free_2 = unpack('>I7', bytes_2, from_2 + low * 12) + window_2
            elseif tail_2 ~= '' then
              free_2 = line_2 + window_2
            end
          end
          if line_2 > free_2 then
            free_2 = line_2
          end
          if moment_2 > free_2 then
            free_2 = moment_2
          end
        end
        go_2 = free_2
      end
      if free_2 > free then
        free = free_2
      end
      if go_2 > go then
        go = go_2
      end
    end
    local refused = never or blocked > now or free - now > max_wait or go - now > longest
    if not refused and cost > 0 then
      do
        local moment = go
        local skipped = 0
        if moment > start_1 then
          skipped = ((moment - start_1) / per_1 - ((moment - start_1) / per_1) % 1) * limit_1
        end
        if skipped > level_1 then
          level_1 = skipped
        end
        level_1 = level_1 + cost
        at_1, used_1 = start_1, level_1
      end
      do
        local moment = go
        last_2 = moment_2
        if gone_2 > 0 and gone_2 * 2 >= count_2 then
          dropped_2, from_2, count_2, gone_2 = left_2, from_2 + gone_2 * 12, count_2 - gone_2, 0
          if count_2 == 0 then
            line_2, total_2, left_2, dropped_2 = 0, 0, 0, 0
          elseif dropped_2 >= 549755813888 then
            local rebased = {}
            for entry = 0, count_2 - 1 do
              local at, total = unpack('>I7I5', bytes_2, from_2 + entry * 12)
              rebased[entry + 1] = pack('>I7I5', at, total - dropped_2)
            end
            bytes_2, from_2 = concat(rebased), 1
            total_2, left_2, dropped_2 = total_2 - dropped_2, left_2 - dropped_2, 0
          end
        end
        local at, permits = moment, cost
        if last_2 > at then
          at = last_2
        end
        total_2 = total_2 + permits
        if total_2 > 1099511627775 then
          total_2 = 1099511627775
        end
        if tail_2 ~= '' then
          if line_2 < at then
            bytes_2, from_2, count_2 = sub(bytes_2, from_2, from_2 + count_2 * 12 - 1) .. tail_2, 1, count_2 + 1
            line_2 = at
          end
        elseif count_2 > 0 and line_2 >= at then
          count_2 = count_2 - 1
        else
          line_2 = at
        end
        tail_2 = pack('>I7I5', line_2, total_2)
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
ends = now + hold
local open = true
if align_1 == 1 then
  if level_1 == 0 then
    open = false
  elseif start_1 + per_1 < ends then
    ends = start_1 + per_1
  end
end
if not open then
  keep, ends = 0, now
end
local granted = 0
if want > 0 and ends > now and promised_1 <= now and until_1 <= now and (own > 0 or allotments_1 < 64) then
  local room = 9007199254740991
  do
    local remaining, rests
    remaining, rests = 0, now
    if level_1 < limit_1 then
      remaining = limit_1 - level_1
    end
    if level_1 > 0 then
      rests = start_1 + (level_1 / limit_1 + -(level_1 / limit_1) % 1) * per_1
    end
    if remaining < room then
      room = remaining
    end
  end
  do
    local remaining, rests
    remaining, rests = 0, now
    if line_2 <= moment_2 and total_2 - left_2 < limit_2 then
      remaining = limit_2 - (total_2 - left_2)
    end
    if total_2 > left_2 then
      rests = line_2 + window_2
    end
    if remaining < room then
      room = remaining
    end
  end
  granted = ((room - others - keep) / 2 - ((room - others - keep) / 2) % 1)
  if granted > want then
    granted = want
  end
  if granted < 0 then
    granted = 0
  end
end
allotted_1, first_end_1, last_end_1 = others, first, last
if own > 0 or keep + granted > 0 then
  local record = pack('>I5I4I6I5I7', id, seq, used, keep + granted, ends)
  if own > 0 then
    records_1 = sub(records_1, 1, own - 1) .. record .. sub(records_1, own + 27)
  else
    records_1, allotments_1 = records_1 .. record, allotments_1 + 1
  end
  allotted_1, moved_1 = others + keep + granted, true
  if first_end_1 == 0 or ends < first_end_1 then
    first_end_1 = ends
  end
  if ends > last_end_1 then
    last_end_1 = ends
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
      rests = start_1 + (level_1 / limit_1 + -(level_1 / limit_1) % 1) * per_1
    end
    if rests > lives then
      lives = rests
    end
    if allotted_1 > 0 then
      local from, windows = last_end_1 - last_end_1 % align_1, 1
      if start_1 > from then
        from = start_1
      end
      if level_1 > limit_1 then
        windows = (level_1 / limit_1 + -(level_1 / limit_1) % 1)
      end
      rests = from + windows * per_1
      if rests > lives then
        lives = rests
      end
    end
  end
  do
    local rests = now
    if total_2 > left_2 then
      rests = line_2 + window_2
    end
    if rests > lives then
      lives = rests
    end
    if allotted_1 > 0 then
      rests = line_2
      if last_end_1 > rests then
        rests = last_end_1
      end
      rests = rests + window_2
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
    do
      local entries, room = count_2 + #tail_2 / 12, 0
      local first, upto = 0, 0
      if gone_2 < count_2 then
        first, upto = unpack('>I7I5', bytes_2, from_2 + gone_2 * 12)
      elseif gone_2 < entries then
        first, upto = unpack('>I7I5', tail_2, (gone_2 - count_2) * 12 + 1)
      end
      head_2 = pack('>I4I7I5I4I4I5I7I5I7I5', 49 + (entries + room) * 12, last_2, dropped_2, entries, gone_2, left_2, first, upto, line_2,
      total_2)
      room_2 = rep('\0', room * 12)
    end
    if allotments_1 > 0 then
      if promised_1 <= now then
        promised_1 = 0
      end
      if until_1 <= now then
        since_1, until_1 = 0, 0
      end
      new_1 = pack('>I6I7I7I7I7I7I7I5I7I7I1', tag_1 + 2199023255552, now, at_1, used_1, promised_1, since_1, until_1, allotted_1, first_end_1,
      last_end_1, allotments_1) .. records_1 .. head_2 .. sub(bytes_2, from_2, from_2 + count_2 * 12 - 1) .. tail_2 .. room_2
    elseif promised_1 > now or until_1 > now then
      new_1 = pack('>I6I7I7I7I7I7I7', tag_1 + 1099511627776, now, at_1, used_1, promised_1, since_1, until_1) .. head_2 .. sub(bytes_2, from_2, from_2 + count_2 * 12 - 1) .. tail_2 .. room_2
    else
      new_1 = pack('>I6I7I7I7', tag_1, now, at_1, used_1) .. head_2 .. sub(bytes_2, from_2, from_2 + count_2 * 12 - 1) .. tail_2 .. room_2
    end
    if far then
      call('SET', KEYS[1], new_1, 'PXAT', format('%d', lives + far))
    else
      call('SET', KEYS[1], new_1, 'PX', format('%d', lives))
    end
  end
end
return pack('>I6I7', 5, now) .. (raw_1 or '')
