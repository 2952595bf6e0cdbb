-- The fixed window that begins with the calendar day, week or month. Twin of tollgate-core/src/algorithm/window.rs and
-- tollgate-core/src/calendar.rs.
--
-- numbers  permits per window, its kind (0 day, 1 week, 2 month), microseconds that local clocks are ahead of UTC, how
--          far back the clock may step
-- state    at: start of the window; used: permits used in it and reserved in later ones
--@ numbers limit unit offset tolerance
--@ meter at used
--@ works start level
--@ outweighs cost > $limit

--@ section prelude
-- The number of the period that a moment lies in. Years are taken to begin in March, so that the leap day is the last
-- of its year.
local function period_of(moment, unit, offset)
  local day = floor((moment + offset) / 86400000000)
  if unit == 0 then
    return day
  elseif unit == 1 then
    return floor((day + 3) / 7)
  end
  day = day + 719468
  local era = floor(day / 146097)
  local of_era = day - era * 146097
  local year = floor((of_era - floor(of_era / 1460) + floor(of_era / 36524) - floor(of_era / 146096)) / 365)
  local of_year = of_era - (365 * year + floor(year / 4) - floor(year / 100))
  return (era * 400 + year) * 12 + floor((5 * of_year + 2) / 153) + 2
end
-- When that period begins; the one that holds the epoch begins at the epoch.
local function begin_of(period, unit, offset)
  local day = period
  if unit == 1 then
    day = period * 7 - 3
  elseif unit == 2 then
    local from_march = period - 2
    local year = floor(from_march / 12)
    local month = from_march - year * 12
    local era = floor(year / 400)
    local of_era = year - era * 400
    day = era * 146097 + 365 * of_era + floor(of_era / 4) - floor(of_era / 100) + floor((153 * month + 2) / 5) - 719468
  end
  local begin = day * 86400000000 - offset
  if begin < 0 then
    return 0
  end
  return begin
end
local function later(start, windows, unit, offset)
  return begin_of(period_of(start, unit, offset) + windows, unit, offset)
end

--@ section follow
local back = $at - now - $tolerance
if back > 0 then
  $at = later(now, 0, $unit, $offset)
  if back > furthest then
    furthest = back
  end
end

--@ section level
$start, $level = 0, 0
if $used > 0 then
  $start, $level = $at, $used
  if now >= $at then
    local ended = period_of(now, $unit, $offset) - period_of($at, $unit, $offset)
    $start, $level = later($at, ended, $unit, $offset), $used - ended * $limit
  end
end
if $level <= 0 then
  $start, $level = later(now, 0, $unit, $offset), 0
end

--@ section weigh
$free = now
if $level + cost > $limit and cost > 0 then
  $free = later($start, ceil(($level + cost) / $limit) - 1, $unit, $offset)
end
$go = $free

--@ section charge
local skipped = 0
if moment > $start then
  skipped = (period_of(moment, $unit, $offset) - period_of($start, $unit, $offset)) * $limit
end
if skipped > $level then
  $level = skipped
end
$level = $level + cost
$at, $used = $start, $level

--@ section rests
local rests = now
if $level > 0 then
  rests = later($start, ceil($level / $limit), $unit, $offset)
end

--@ section look
remaining, rests = 0, now
if $level < $limit then
  remaining = $limit - $level
end
if $level > 0 then
  rests = later($start, ceil($level / $limit), $unit, $offset)
end

--@ section penalize
-- What is used up cannot be used up further.
local full = $limit
if $level > $limit then
  full = ceil($level / $limit) * $limit
end
$level = $level + cost
if $level > full then
  $level = full
end
$at, $used = $start, $level

--@ section give_back
-- What was taken in a window that has ended is forgotten; this one is not to pay for it.
if last and (at < 0 or at >= $start) then
  $level = $level - cost
  if $level < 0 then
    $level = 0
  end
  $at, $used = $start, $level
end

--@ section line_ends
local ends = now
if $level > $limit then
  ends = later($start, ceil($level / $limit) - 1, $unit, $offset)
end

--@ section is_last
local ends = now
if $level > $limit then
  ends = later($start, ceil($level / $limit) - 1, $unit, $offset)
end
last = at >= ends
