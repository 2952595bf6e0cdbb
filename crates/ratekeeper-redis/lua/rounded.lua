-- Bucket whose rate is rounded, because its quota is too large for permits of exact units. Twin of
-- ratekeeper-core/src/algorithm/bucket.rs and rate.rs; what is not here is as in bucket.lua.
--
-- numbers  capacity, unit, tolerance: as in bucket.lua; drain: units per period; period: µs; half: half the time of one
--          permit, µs
-- state    as in bucket.lua
-- shaped   as in bucket.lua
--@ base bucket
--@ numbers capacity unit drain period half tolerance
--@ meter at used
--@ works base level
--@ outweighs cost * $unit > $capacity

--@ section prelude
-- x * y / z for integers below 2^52, z below 2^50 and quotients below 2^51: the quotient, rounded down, and the
-- remainder. Doubles round the product, so the quotient may be wrong by one; the remainder, which is exact modulo
-- 2^52, shows that.
local function ratio(x, y, z)
  local quotient = floor(x * y / z)
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
-- Units that drain from one time to a later one. Sums beyond 2^53 are rounded, and exceed every level.
local function drained(from, to, drain, period)
  local before, after = from % period, to % period
  local units, _ = ratio(before, drain, period)
  return (to - after - from + before) / period * drain + ratio(after, drain, period) - units
end
-- When this many units have drained, counted from `base`.
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

--@ section level
$base, $level = now, $used
if now > $at then
  $level = $used - drained($at, now, $drain, $period)
  if $level < 0 then
    $level = 0
  end
elseif $used > 0 then
  $base = $at
end

--@ section weigh plain
$free = now
local over = $level + cost * $unit - $capacity
if over > 0 and cost > 0 then
  $free = drained_at($base, over, $drain, $period)
end
$go = $free

--@ section weigh shaped
--@ do weigh plain
if $level > 0 and cost > 0 then
  local own = drained_at($base, $level, $drain, $period)
  if own > $go then
    $go = own
  end
end

--@ section charge
if moment > $base then
  local drained = drained($base, moment, $drain, $period)
  if drained > $level then
    $level = drained
  end
end
$level = $level + cost * $unit
$at, $used = $base, $level

--@ section rest
if $level > 0 then
  rests = drained_at($base, $level, $drain, $period)
end

--@ section rests_held
rests = $level + @allotted * $unit
if rests > 4503599627370495 then
  rests = 4503599627370495
end
rests = drained_at(@last_end, rests, $drain, $period)

--@ section quick
if $at > now then
  fits = nil
elseif fits then
  $used = $used - drained($at, now, $drain, $period)
  if $used < 0 then
    $used = 0
  end
  $at, $used = now, $used + cost * $unit
  fits = $used <= $capacity
  local rests = drained_at(now, $used, $drain, $period)
  if rests > lives then
    lives = rests
  end
end

--@ section line_ends
local ends = now
if $level > $capacity then
  ends = drained_at($base, $level - $capacity, $drain, $period)
end

--@ section line_ends shaped
local ends = now
if $level > $unit then
  ends = drained_at($base, $level - $unit, $drain, $period)
end

--@ section is_last
local ahead = $level - $capacity
--@ do is_last by

--@ section is_last shaped
local ahead = $level - cost * $unit
--@ do is_last by

--@ section is_last by
local ends = $base
if ahead > 0 then
  ends = drained_at($base, ahead, $drain, $period)
end
last = at > now and at + $half >= ends
