-- Concurrency: leases in the order of their expiry. Twin of ratekeeper-core/src/algorithm/leases.rs.
--
-- numbers  limit: permits held at the same time; lease: µs until a lease expires without a heartbeat; tolerance: µs that
--          the clock may step back without being followed
-- state    a list: time of the last change (7 bytes, µs), then per lease its id (7), permits (3) and expiry (7, µs)
--@ numbers limit lease tolerance
--@ list 7
--@ works last ids permits untils count moment first held line packed
--@ outweighs cost > $limit
--@ packed $packed

--@ section unseen
$last, $ids, $permits, $untils, $count = 0, {}, {}, {}, 0

--@ section read
local length
length, $last = unpack('>I4I7', @raw, pos)
$count = (length - 7) / 17
if length < 7 or pos + 4 + length > size + 1 or $count % 1 > 0 then
  return pack('>I6I7I1', 4, now, @@) .. @raw
end
for one = 1, $count do
  $ids[one], $permits[one], $untils[one] = unpack('>I7I3I7', @raw, pos + 11 + (one - 1) * 17)
end
pos = pos + 4 + length

--@ section follow
local back = $last - now - $tolerance
if back > 0 then
  for one = 1, $count do
    $untils[one] = $untils[one] - back
    if $untils[one] < 0 then
      $untils[one] = 0
    end
  end
  $last = $last - back
  if back > furthest then
    furthest = back
  end
end

--@ section level
-- Leases up to `first` have expired.
$moment, $first, $held, $line = now, 0, 0, 0
if $count > 0 then
  if $last > now then
    $moment = $last
  end
  while $first < $count and $untils[$first + 1] <= $moment do
    $first = $first + 1
  end
  for one = $first + 1, $count do
    $held = $held + $permits[one]
  end
  $line = $untils[$count] - $lease
end

--@ section weigh
$free = now
if cost > 0 and ($held + cost > $limit or $line > $moment) then
  $free = $line
  if $moment > $free then
    $free = $moment
  end
  local held, one = $held, $first
  while held + cost > $limit and one < $count do
    one = one + 1
    held = held - $permits[one]
    if $untils[one] > $free then
      $free = $untils[one]
    end
  end
end
$go = $free

--@ section bring_up_to_date
$last = $moment
if $first > 0 then
  local ids, permits, untils = {}, {}, {}
  for one = $first + 1, $count do
    ids[one - $first], permits[one - $first], untils[one - $first] = $ids[one], $permits[one], $untils[one]
  end
  $ids, $permits, $untils, $count, $first = ids, permits, untils, $count - $first, 0
end

--@ section insert
do
  local place = $count + 1
  while place > 1 and $untils[place - 1] > ends do
    $ids[place], $permits[place], $untils[place] = $ids[place - 1], $permits[place - 1], $untils[place - 1]
    place = place - 1
  end
  $ids[place], $permits[place], $untils[place] = id, permits, ends
  $count = $count + 1
end

--@ section charge
--@ do bring_up_to_date
local id, permits, ends = lease, cost, moment
if $last > ends then
  ends = $last
end
ends = ends + $lease
--@ do insert
--@ do level

--@ section rests
local rests = now
if $held > 0 then
  rests = $untils[$count]
end

--@ section look
remaining, rests = 0, now
if $line <= $moment and $held < $limit then
  remaining = $limit - $held
end
if $held > 0 then
  rests = $untils[$count]
end

--@ section pack
local leases = {}
for one = 1, $count do
  leases[one] = pack('>I7I3I7', $ids[one], $permits[one], $untils[one])
end
$packed = pack('>I4I7', 7 + $count * 17, $last) .. concat(leases)

--@ section penalize
-- A penalty is a lease without a holder, of at most the limit.
--@ do bring_up_to_date
local id, permits, ends = 0, cost, $last + $lease
if permits > $limit then
  permits = $limit
end
--@ do insert
--@ do level

--@ section find
local found = 0
for one = 1, $count do
  if $ids[one] == lease then
    found = one
    break
  end
end

--@ section remove
for one = found, $count do
  $ids[one], $permits[one], $untils[one] = $ids[one + 1], $permits[one + 1], $untils[one + 1]
end
$count = $count - 1

--@ section release
--@ do bring_up_to_date
do
--@ do find
  if found > 0 then
--@ do remove
    held = true
  end
end
--@ do level

--@ section keep_some
-- Removes leases without permits.
do
  local ids, permits, untils, count = {}, {}, {}, 0
  for one = 1, $count do
    if $permits[one] > 0 then
      count = count + 1
      ids[count], permits[count], untils[count] = $ids[one], $permits[one], $untils[one]
    end
  end
  $ids, $permits, $untils, $count = ids, permits, untils, count
end
--@ do level

--@ section release_oldest
--@ do bring_up_to_date
do
  local missing = cost
  for one = 1, $count do
    local permits = $permits[one]
    if permits > missing then
      permits = missing
    end
    $permits[one], missing = $permits[one] - permits, missing - permits
  end
end
--@ do keep_some

--@ section heartbeat
--@ do bring_up_to_date
do
--@ do find
  if found > 0 then
    held = true
    -- Not extended while a reservation depends on the end of this lease.
    if $untils[$count] - $lease <= $last then
      local id, permits, ends = $ids[found], $permits[found], $last + $lease
      if $untils[found] > ends then
        ends = $untils[found]
      end
--@ do remove
--@ do insert
    end
  end
end
--@ do level

--@ section give_back
-- With an id, that lease is released. Without one, permits are taken from the newest leases that have begun, or from
-- those that began at the time given.
--@ do bring_up_to_date
if lease >= 0 then
--@ do find
  if found > 0 then
--@ do remove
  end
else
  local missing = cost
  for one = $count, 1, -1 do
    local begins = $untils[one] - $lease
    if begins < 0 then
      begins = 0
    end
    local begun = begins <= $last
    if at >= 0 then
      begun = begins == at
    end
    if begun then
      local permits = $permits[one]
      if permits > missing then
        permits = missing
      end
      $permits[one], missing = $permits[one] - permits, missing - permits
    end
  end
end
--@ do keep_some

--@ section register
-- Adds and releases the leases of a charge, read from the position `listed` of ARGV[1]. A lease that is known keeps the
-- later of its two ends.
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
--@ do bring_up_to_date
    for one = 1, #parts do
      local lease = parts[one]
--@ do find
      if found > 0 then
--@ do remove
      end
    end
    for one = 1, #joins do
      local lease, permits, ends = joins[one][1], joins[one][2], joins[one][3]
      if ends > $last then
        local id = lease
--@ do find
        if found > 0 then
          if $untils[found] > ends then
            ends = $untils[found]
          end
--@ do remove
        end
--@ do insert
      end
    end
--@ do level
  end
end

--@ section line_ends
local ends = $line

--@ section is_last
last = at >= $line
