-- Sliding log: the time of every admitted request of the window. Twin of ratekeeper-core/src/algorithm/log.rs.
--
-- numbers  limit: permits per window; window: its length, µs; tolerance: µs that the clock may step back without being
--          followed
-- state    a list. Head (49 bytes): time of the last change (7), permits of the entries dropped so far (5), number of
--          entries (4), number of entries outside the window at the last write (4) and the permits up to there (5);
--          time (7) and permits (5) of the first entry inside, and of the last. Then per entry its time (7) and the
--          permits up to and including it (5), and free room. Entries stay packed: the edge of the window is found by
--          binary search, and entries are dropped by cutting the string.
--@ numbers limit window tolerance
--@ list 49
--@ works bytes from count last dropped line total moment gone left tail head room
--@ outweighs cost > $limit
--@ packed $head .. sub($bytes, $from, $from + $count * 12 - 1) .. $tail .. $room

--@ section unseen
$bytes, $from, $count, $last, $dropped, $tail = '', 1, 0, 0, 0, ''

--@ section read
local length, total
length, $last, $dropped, $count = unpack('>I4I7I5I4', @raw, pos)
total = unpack('>I5', @raw, pos + 48)
$bytes, $from = @raw, pos + 53
pos = pos + 4 + length
if length < 49 + $count * 12 or pos > size + 1 or total < $dropped then
  return pack('>I6I7I1', 4, now, @@) .. @raw
end

--@ section follow
local back = $last - now - $tolerance
if back > 0 then
  local moved = {}
  for entry = 0, $count - 1 do
    local at, total = unpack('>I7I5', $bytes, $from + entry * 12)
    at = at - back
    if at < 0 then
      at = 0
    end
    moved[entry + 1] = pack('>I7I5', at, total)
  end
  $bytes, $from, $last = concat(moved), 1, $last - back
  if back > furthest then
    furthest = back
  end
end

--@ section rests_held
rests = $line
if @last_end > rests then
  rests = @last_end
end
rests = rests + $window

--@ section level
if $tail ~= '' then
  -- An entry that was added before becomes one of the others.
  $bytes, $from, $count, $tail = sub($bytes, $from, $from + $count * 12 - 1) .. $tail, 1, $count + 1, ''
end
$line, $total, $moment, $gone, $left = 0, $dropped, now, 0, $dropped
if $count > 0 then
  $line, $total = unpack('>I7I5', $bytes, $from + ($count - 1) * 12)
  if $last > now then
    $moment = $last
  end
  local edge = $moment - $window
  local high = $count
  while $gone < high do
    local middle = floor(($gone + high) / 2)
    if unpack('>I7', $bytes, $from + middle * 12) <= edge then
      $gone = middle + 1
    else
      high = middle
    end
  end
  if $gone > 0 then
    $left = unpack('>I5', $bytes, $from + $gone * 12 - 5)
  end
end

--@ section weigh
$free = now
local must_leave = $total + cost - $limit
if cost > 0 and (must_leave > $left or $line > $moment) then
  if must_leave > $dropped then
    -- The first entry up to which enough permits were used is the last that has to leave the window.
    local low, high = 0, $count
    while low < high do
      local middle = floor((low + high) / 2)
      if unpack('>I5', $bytes, $from + middle * 12 + 7) < must_leave then
        low = middle + 1
      else
        high = middle
      end
    end
    if low < $count then
      $free = unpack('>I7', $bytes, $from + low * 12) + $window
    elseif $tail ~= '' then
      $free = $line + $window
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
  $dropped, $from, $count, $gone = $left, $from + $gone * 12, $count - $gone, 0
  if $count == 0 then
    $line, $total, $left, $dropped = 0, 0, 0, 0
  elseif $dropped >= 549755813888 then
    -- Totals restart from zero before they exceed exact numbers.
    local rebased = {}
    for entry = 0, $count - 1 do
      local at, total = unpack('>I7I5', $bytes, $from + entry * 12)
      rebased[entry + 1] = pack('>I7I5', at, total - $dropped)
    end
    $bytes, $from = concat(rebased), 1
    $total, $left, $dropped = $total - $dropped, $left - $dropped, 0
  end
end

--@ section add
$total = $total + permits
if $total > 1099511627775 then
  $total = 1099511627775
end
if $tail ~= '' then
  if $line < at then
    $bytes, $from, $count = sub($bytes, $from, $from + $count * 12 - 1) .. $tail, 1, $count + 1
    $line = at
  end
elseif $count > 0 and $line >= at then
  $count = $count - 1
else
  $line = at
end
$tail = pack('>I7I5', $line, $total)

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
local entries, room = $count + #$tail / 12, 0
--@ if alone
room = floor(entries / 8)
--@ end
local first, upto = 0, 0
if $gone < $count then
  first, upto = unpack('>I7I5', $bytes, $from + $gone * 12)
elseif $gone < entries then
  first, upto = unpack('>I7I5', $tail, ($gone - $count) * 12 + 1)
end
$head = pack('>I4I7I5I4I4I5I7I5I7I5', 49 + (entries + room) * 12, $last, $dropped, entries, $gone, $left, first, upto, $line,
  $total)
$room = rep('\0', room * 12)

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
  -- The time of each entry is known, so a refund is exact; without a time, from the latest entries.
  local latest = at
  if at < 0 then
    latest = $last
  end
  local index, high = 0, $count
  while index < high do
    local middle = floor((index + high) / 2)
    if unpack('>I7', $bytes, $from + middle * 12) <= latest then
      index = middle + 1
    else
      high = middle
    end
  end
  -- From there backwards entries lose permits until the cost is covered; later ones keep theirs, with lower totals.
  local missing, first, stays = cost, index, {}
  while missing > 0 and first > 0 do
    local moment, total = unpack('>I7I5', $bytes, $from + (first - 1) * 12)
    if at >= 0 and moment ~= at then
      break
    end
    local before = $dropped
    if first > 1 then
      before = unpack('>I5', $bytes, $from + (first - 2) * 12 + 7)
    end
    first = first - 1
    if total - before > missing then
      stays[1], missing = pack('>I7I5', moment, total - missing), 0
    else
      missing = missing - (total - before)
    end
  end
  for entry = index, $count - 1 do
    local moment, total = unpack('>I7I5', $bytes, $from + entry * 12)
    stays[#stays + 1] = pack('>I7I5', moment, total - (cost - missing))
  end
  $bytes, $from, $count = sub($bytes, $from, $from + first * 12 - 1) .. concat(stays), 1, first + #stays
  if $count == 0 then
    $dropped = 0
  end
end
--@ do level

--@ section line_ends
local ends = $line

--@ section is_last
last = at >= $line
