-- Token bucket that refills in lumps. Twin of ratekeeper-core/src/algorithm/stepwise.rs.
--
-- numbers  limit: permits it holds; lump: permits per refill; per: µs between refills; tolerance: µs that the clock may
--          step back without being followed
-- state    at: the last refill, µs; used: permits used, including reserved ones
--@ base meter
--@ numbers limit lump per tolerance
--@ meter at used
--@ works tick level
--@ outweighs cost > $limit

--@ section follow
local back = $at - now - $tolerance
if back > 0 then
  $at = $at - back
  if back > furthest then
    furthest = back
  end
end

--@ section level
$tick, $level = $at, $used
if now > $at then
  local ticks = floor((now - $at) / $per)
  $tick, $level = $at + ticks * $per, $used - ticks * $lump
end
if $level <= 0 then
  $tick, $level = now, 0
end

--@ section weigh
$free = now
local over = $level + cost - $limit
if over > 0 and cost > 0 then
  $free = $tick + ceil(over / $lump) * $per
end
$go = $free

--@ section charge
local refilled = 0
if moment > $tick then
  refilled = floor((moment - $tick) / $per) * $lump
end
if refilled > $level then
  $level = refilled
end
$level = $level + cost
$at, $used = $tick, $level

--@ section rest
if $level > 0 then
  rests = $tick + ceil($level / $lump) * $per
end

--@ section not_before
-- Not before the last change of the state: what has drained until then would drain again.
if $at > now then
  now = $at
end

--@ section rests_held
local most = floor(4503599627370495 / $per) * $lump
if most > 4503599627370495 then
  most = 4503599627370495
end
rests = $level + @allotted
if rests > most then
  rests = most
end
rests = @last_end + ceil(rests / $lump) * $per

--@ section quick
if $at > now then
  fits = nil
elseif fits then
  local ticks = floor((now - $at) / $per)
  $at, $used = $at + ticks * $per, $used - ticks * $lump
  if $used <= 0 then
    $at, $used = now, 0
  end
  $used = $used + cost
  fits = $used <= $limit
  local rests = $at + ceil($used / $lump) * $per
  if rests > lives then
    lives = rests
  end
end

--@ section penalize
-- The most that may be used: neither the permits nor the time to refill them may reach 2^52.
local most = floor(4503599627370495 / $per) * $lump
if most > 4503599627370495 then
  most = 4503599627370495
end
$level = $level + cost
if $level > most then
  $level = most
end
$at, $used = $tick, $level

--@ section give_back
if last then
  $level = $level - cost
  if $level < 0 then
    $level = 0
  end
  $at, $used = $tick, $level
end

--@ section line_ends
local ends = now
if $level > $limit then
  ends = $tick + ceil(($level - $limit) / $lump) * $per
end


