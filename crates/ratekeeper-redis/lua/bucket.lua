-- Token bucket that refills continuously; the same as GCRA and as a leaky bucket. Twin of
-- ratekeeper-core/src/algorithm/bucket.rs.
--
-- numbers  capacity, unit: the bucket and one permit, in units; drain: units per µs; tolerance: µs that the clock may
--          step back without being followed
-- state    at: the time for which `used` holds, µs; used: units used, including reserved ones
-- shaped   sections with this suffix are those of a leaky bucket that spaces requests evenly
--@ base meter
--@ numbers capacity unit drain tolerance
--@ meter at used
--@ works base level
--@ outweighs cost * $unit > $capacity

--@ section follow
local back = $at - now - $tolerance
if back > 0 then
  $at = $at - back
  if back > furthest then
    furthest = back
  end
end

--@ section level
$base, $level = now, $used
if now > $at then
  $level = $used - (now - $at) * $drain
  if $level < 0 then
    $level = 0
  end
elseif $used > 0 then
  $base = $at
end

--@ section weigh
--@ do weigh plain

--@ section weigh plain
$free = now
local over = $level + cost * $unit - $capacity
if over > 0 and cost > 0 then
  $free = $base + ceil(over / $drain)
end
$go = $free

--@ section weigh shaped
--@ do weigh plain
if $level > 0 and cost > 0 then
  local own = $base + ceil($level / $drain)
  if own > $go then
    $go = own
  end
end

--@ section charge
local drained = (moment - $base) * $drain
if drained > $level then
  $level = drained
end
$level = $level + cost * $unit
$at, $used = $base, $level

--@ section rest
if $level > 0 then
  rests = $base + ceil($level / $drain)
end
--@ section not_before
-- Not before the last change of the state: what has drained until then would drain again.
if $at > now then
  now = $at
end

--@ section rests_held
rests = $level + @allotted * $unit
if rests > 4503599627370495 then
  rests = 4503599627370495
end
rests = @last_end + ceil(rests / $drain)

--@ section look
remaining, rests = 0, now
if $level < $capacity then
  remaining = floor(($capacity - $level) / $unit)
end
--@ do rest

--@ section quick
if $at > now then
  fits = nil
elseif fits then
  $used = $used - (now - $at) * $drain
  if $used < 0 then
    $used = 0
  end
  $at, $used = now, $used + cost * $unit
  fits = $used <= $capacity
  local rests = now + ceil($used / $drain)
  if rests > lives then
    lives = rests
  end
end

--@ section penalize
$level = $level + cost * $unit
if $level > 4503599627370495 then
  $level = 4503599627370495
end
$at, $used = $base, $level

--@ section give_back
if last then
  $level = $level - cost * $unit
  if $level < 0 then
    $level = 0
  end
  $at, $used = $base, $level
end

--@ section line_ends
local ends = now
if $level > $capacity then
  ends = $base + ceil(($level - $capacity) / $drain)
end

--@ section line_ends shaped
local ends = now
if $level > $unit then
  ends = $base + ceil(($level - $unit) / $drain)
end

--@ section is_last
local ahead = $level - $capacity
if ahead < 0 then
  ahead = 0
end
last = at > now and at + floor(floor($unit / $drain) / 2) >= $base + ceil(ahead / $drain)

--@ section is_last shaped
local ahead = $level - cost * $unit
if ahead < 0 then
  ahead = 0
end
last = at > now and at + floor(floor($unit / $drain) / 2) >= $base + ceil(ahead / $drain)
