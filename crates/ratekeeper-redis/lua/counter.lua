-- Sliding counter: permits per slice of the window. Twin of ratekeeper-core/src/algorithm/counter.rs.
--
-- numbers  limit: permits per window; window, slice: their lengths, µs; tolerance: µs that the clock may step back
--          without being followed
-- state    a list: time of the last change (7 bytes, µs), then per used slice its number (7) and its permits (7)
--@ numbers limit window slice tolerance
--@ list 7
--@ works last indexes permits count moment first counted line packed
--@ outweighs cost > $limit
--@ packed $packed

--@ section unseen
$last, $indexes, $permits, $count = 0, {}, {}, 0

--@ section read
local length
length, $last = unpack('>I4I7', @raw, pos)
$count = (length - 7) / 14
if length < 7 or pos + 4 + length > size + 1 or $count % 1 > 0 then
  return pack('>I6I7I1', 4, now, @@) .. @raw
end
for slice = 1, $count do
  $indexes[slice], $permits[slice] = unpack('>I7I7', @raw, pos + 11 + (slice - 1) * 14)
end
pos = pos + 4 + length

--@ section follow
local back = $last - now - $tolerance
if back > 0 then
  -- By whole slices, rounded down, so that no slice leaves the window early. Slices before the latest stay in the past.
  local by, newest, latest = floor(back / $slice), floor(now / $slice), floor($last / $slice)
  local indexes, permits, count = {}, {}, 0
  for slice = 1, $count do
    local index = $indexes[slice] - by
    if index < 0 then
      index = 0
    end
    if $indexes[slice] < latest and index > newest then
      index = newest
    end
    if count > 0 and indexes[count] >= index then
      permits[count] = permits[count] + $permits[slice]
    else
      count = count + 1
      indexes[count], permits[count] = index, $permits[slice]
    end
  end
  $indexes, $permits, $count, $last = indexes, permits, count, $last - back
  if back > furthest then
    furthest = back
  end
end

--@ section level
-- Slices up to `first` no longer overlap the window.
$moment, $first, $counted, $line = now, 0, 0, 0
if $count > 0 then
  if $last > now then
    $moment = $last
  end
  while $first < $count and ($indexes[$first + 1] + 1) * $slice + $window <= $moment do
    $first = $first + 1
  end
  for slice = $first + 1, $count do
    $counted = $counted + $permits[slice]
  end
  if $first < $count then
    $line = $indexes[$count] * $slice
  end
end

--@ section weigh
$free = now
if cost > 0 and ($counted + cost > $limit or $line > $moment) then
  $free = $line
  if $moment > $free then
    $free = $moment
  end
  local counted, slice = $counted, $first
  while counted + cost > $limit and slice < $count do
    slice = slice + 1
    counted = counted - $permits[slice]
    local leaves = ($indexes[slice] + 1) * $slice + $window
    if leaves > $free then
      $free = leaves
    end
  end
end
$go = $free

--@ section bring_up_to_date
$last = $moment
if $first > 0 then
  local indexes, permits = {}, {}
  for slice = $first + 1, $count do
    indexes[slice - $first], permits[slice - $first] = $indexes[slice], $permits[slice]
  end
  $indexes, $permits, $count, $first = indexes, permits, $count - $first, 0
end

--@ section add
if $count > 0 and $indexes[$count] >= index then
  $permits[$count] = $permits[$count] + permits
else
  $count = $count + 1
  $indexes[$count], $permits[$count] = index, permits
end
$counted, $line = $counted + permits, $indexes[$count] * $slice

--@ section charge
--@ do bring_up_to_date
local index, permits = moment, cost
if $last > index then
  index = $last
end
index = floor(index / $slice)
--@ do add

--@ section rests
local rests = now
if $first < $count then
  rests = ($indexes[$count] + 1) * $slice + $window
end

--@ section rests_held
rests = floor(@last_end / $slice)
if $count > 0 and $indexes[$count] > rests then
  rests = $indexes[$count]
end
rests = (rests + 1) * $slice + $window

--@ section look
remaining, rests = 0, now
if $line <= $moment and $counted < $limit then
  remaining = $limit - $counted
end
if $first < $count then
  rests = ($indexes[$count] + 1) * $slice + $window
end

--@ section pack
local slices = {}
for slice = 1, $count do
  slices[slice] = pack('>I7I7', $indexes[slice], $permits[slice])
end
$packed = pack('>I4I7', 7 + $count * 14, $last) .. concat(slices)

--@ section penalize
--@ do bring_up_to_date
local index, permits = floor($last / $slice), cost
if permits > $limit then
  permits = $limit
end
--@ do add

--@ section give_back
--@ do bring_up_to_date
do
  -- The permits of each slice are known, so a refund is always possible; without a time, from the latest slices.
  local latest = at
  if at < 0 then
    latest = $last
  end
  latest = floor(latest / $slice)
  local missing = cost
  for slice = $count, 1, -1 do
    if $indexes[slice] <= latest then
      if missing == 0 or (at >= 0 and $indexes[slice] ~= latest) then
        break
      end
      local permits = $permits[slice]
      if permits > missing then
        permits = missing
      end
      $permits[slice], missing = $permits[slice] - permits, missing - permits
    end
  end
  local indexes, permits, count = {}, {}, 0
  for slice = 1, $count do
    if $permits[slice] > 0 then
      count = count + 1
      indexes[count], permits[count] = $indexes[slice], $permits[slice]
    end
  end
  $indexes, $permits, $count = indexes, permits, count
end
--@ do level

--@ section line_ends
-- A reservation may be for any time within the last slice.
local ends = 0
if $count > 0 then
  ends = $indexes[$count] * $slice + $slice - 1
end

--@ section is_last
-- Reservations within one slice do not depend on each other.
last = $count == 0 or at >= $indexes[$count] * $slice
