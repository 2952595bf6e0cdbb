-- Fixed window of a calendar day, week or month. Twin of ratekeeper-core/src/algorithm/window.rs and
-- ratekeeper-core/src/calendar.rs.
--
-- numbers  limit: permits per window; unit: 0 day, 1 week, 2 month; offset: µs by which local time is ahead of UTC;
--          tolerance: µs that the clock may step back without being followed
-- state    at: start of the window, µs; used: permits used in it and reserved in later ones
--
-- Sections that are not here are those of window.lua.
--@ base window
--@ numbers limit unit offset tolerance
--@ meter at used
--@ works start level
--@ outweighs cost > $limit

--@ section prelude
-- The number of the period that contains a time. Years begin in March, so that the leap day is the last of its year.
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
-- The start of a period; that of the period which contains the epoch is the epoch.
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

--@ section free_window
$free = later($start, ceil(($level + cost) / $limit) - 1, $unit, $offset)

--@ section skip
skipped = (period_of(moment, $unit, $offset) - period_of($start, $unit, $offset)) * $limit

--@ section rest
if $level > 0 then
  rests = later($start, ceil($level / $limit), $unit, $offset)
end
--@ section rests_held
local from, windows = later(@last_end, 0, $unit, $offset), 1
if $start > from then
  from = $start
end
if $level > $limit then
  windows = ceil($level / $limit)
end
rests = later(from, windows, $unit, $offset)

--@ section allotment_end

--@ section line_ends
local ends = now
if $level > $limit then
  ends = later($start, ceil($level / $limit) - 1, $unit, $offset)
end


