-- The sliding log. Twin of tollgate-core/src/algorithm/log.rs.
--
-- numbers  permits in every window, its length, how far back the clock may step
-- state    the clock at the last change, permits of the entries dropped so far, then per entry its moment and the
--          permits admitted up to and including it. Entries stay packed: what counts is found by binary search, and
--          dropping is cutting the string.
--@ numbers limit window tolerance
--@ list 14
--@ works bytes from count last dropped line total moment gone left tail packed
--@ outweighs cost > $limit

--@ section unseen
$bytes, $from, $count, $last, $dropped, $tail = '', 1, 0, 0, 0, ''

--@ section read
local length
length, $last, $dropped = unpack('>I4I7I7', @raw, pos)
$bytes, $from, $count = @raw, pos + 18, (length - 14) / 14
pos = pos + 4 + length
if length < 14 or pos > size + 1 or $count % 1 > 0 then
  return pack('>I6I7I1', 4, now, @@) .. @raw
end

--@ section follow
local back = $last - now - $tolerance
if back > 0 then
  local moved = {}
  for entry = 0, $count - 1 do
    local at, total = unpack('>I7I7', $bytes, $from + entry * 14)
    at = at - back
    if at < 0 then
      at = 0
    end
    moved[entry + 1] = pack('>I7I7', at, total)
  end
  $bytes, $from, $last = concat(moved), 1, $last - back
  if back > furthest then
    furthest = back
  end
end

--@ section level
$line, $total, $moment, $gone, $left = 0, $dropped, now, 0, $dropped
if $count > 0 then
  $line, $total = unpack('>I7I7', $bytes, $from + ($count - 1) * 14)
  if $last > now then
    $moment = $last
  end
  local edge = $moment - $window
  local high = $count
  while $gone < high do
    local middle = floor(($gone + high) / 2)
    if unpack('>I7', $bytes, $from + middle * 14) <= edge then
      $gone = middle + 1
    else
      high = middle
    end
  end
  if $gone > 0 then
    $left = unpack('>I7', $bytes, $from + $gone * 14 - 7)
  end
end

--@ section weigh
$free = now
local must_leave = $total + cost - $limit
if cost > 0 and (must_leave > $left or $line > $moment) then
  if must_leave > $dropped then
    -- The first entry by which enough permits were made is the last that has to leave.
    local low, high = 0, $count
    while low < high do
      local middle = floor((low + high) / 2)
      if unpack('>I7', $bytes, $from + middle * 14 + 7) < must_leave then
        low = middle + 1
      else
        high = middle
      end
    end
    if low < $count then
      $free = unpack('>I7', $bytes, $from + low * 14) + $window
    end
  end
  if $line > $free then
    $free = $line
  end
  if $moment > $free then
    $free = $moment
  end
end
$go = $free

--@ section bring_up_to_date
$last = $moment
if $gone > 0 and $gone * 2 >= $count then
  $dropped, $from, $count, $gone = $left, $from + $gone * 14, $count - $gone, 0
  if $count == 0 then
    $line, $total, $left, $dropped = 0, 0, 0, 0
  elseif $dropped >= 1125899906842624 then
    -- Totals begin again from zero before they leave exact numbers.
    local rebased = {}
    for entry = 0, $count - 1 do
      local at, total = unpack('>I7I7', $bytes, $from + entry * 14)
      rebased[entry + 1] = pack('>I7I7', at, total - $dropped)
    end
    $bytes, $from = concat(rebased), 1
    $total, $left, $dropped = $total - $dropped, $left - $dropped, 0
  end
end

--@ section add
$total = $total + permits
if $count > 0 and $line >= at then
  $count = $count - 1
else
  $line = at
end
$tail = pack('>I7I7', $line, $total)

--@ section charge
--@ do bring_up_to_date
local at, permits = moment, cost
if $last > at then
  at = $last
end
--@ do add

--@ section rests
local rests = now
if $total > $left then
  rests = $line + $window
end

--@ section look
remaining, rests = 0, now
if $line <= $moment and $total - $left < $limit then
  remaining = $limit - ($total - $left)
end
if $total > $left then
  rests = $line + $window
end

--@ section pack
$packed = pack('>I4I7I7', 14 + $count * 14 + #$tail, $last, $dropped) .. sub($bytes, $from, $from + $count * 14 - 1) .. $tail

--@ section penalize
--@ do bring_up_to_date
local at, permits = $last, cost
if permits > $limit then
  permits = $limit
end
--@ do add

--@ section give_back
--@ do bring_up_to_date
do
  -- The log knows each moment, so it can always give back exactly; without one, the latest already gone.
  local latest = at
  if at < 0 then
    latest = $last
  end
  local index, high = 0, $count
  while index < high do
    local middle = floor((index + high) / 2)
    if unpack('>I7', $bytes, $from + middle * 14) <= latest then
      index = middle + 1
    else
      high = middle
    end
  end
  -- From there on back, entries lose permits until none is missing; those behind keep theirs, on lower totals.
  local missing, first, stays = cost, index, {}
  while missing > 0 and first > 0 do
    local moment, total = unpack('>I7I7', $bytes, $from + (first - 1) * 14)
    if at >= 0 and moment ~= at then
      break
    end
    local before = $dropped
    if first > 1 then
      before = unpack('>I7', $bytes, $from + (first - 2) * 14 + 7)
    end
    first = first - 1
    if total - before > missing then
      stays[1], missing = pack('>I7I7', moment, total - missing), 0
    else
      missing = missing - (total - before)
    end
  end
  for entry = index, $count - 1 do
    local moment, total = unpack('>I7I7', $bytes, $from + entry * 14)
    stays[#stays + 1] = pack('>I7I7', moment, total - (cost - missing))
  end
  $bytes, $from, $count = sub($bytes, $from, $from + first * 14 - 1) .. concat(stays), 1, first + #stays
  if $count == 0 then
    $dropped = 0
  end
end
--@ do level

--@ section line_ends
local ends = $line

--@ section is_last
last = at >= $line
