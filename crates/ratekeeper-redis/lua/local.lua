-- Fixed window of a calendar day, week, month or year of a time zone. Twin of ratekeeper-core/src/algorithm/window.rs and
-- ratekeeper-core/src/local_calendar.rs.
--
-- numbers  limit: permits per window; w1 to w30: starts of consecutive windows, µs, w15 that of the present window by the
--          caller's clock; tolerance: µs that the clock may step back without being followed
-- state    at: start of the window, µs; used: permits used in it and reserved in later ones, 13 windows at most
--
-- The window is that of the server's clock. If that is more than one window away from w15, the starts do not suffice, and
-- the reply asks for others (code 10). Sections that are not here are those of window.lua.
--@ base window
--@ numbers limit w1 w2 w3 w4 w5 w6 w7 w8 w9 w10 w11 w12 w13 w14 w15 w16 w17 w18 w19 w20 w21 w22 w23 w24 w25 w26 w27 w28 w29 w30 tolerance
--@ meter at used
--@ works start level starts
--@ outweighs cost > $limit

--@ section prelude
-- The position of the window that contains a time; 0 if it is before all of them.
local function window_at(starts, moment)
  local place = #starts
  while place > 0 and starts[place] > moment do
    place = place - 1
  end
  return place
end
-- The start of a later window; the end of time if it is more than 13 ahead.
local function later_start(starts, start, windows)
  if windows > 13 then
    return 4503599627370495
  end
  return starts[window_at(starts, start) + windows]
end

--@ section unseen
$starts = {$w1, $w2, $w3, $w4, $w5, $w6, $w7, $w8, $w9, $w10, $w11, $w12, $w13, $w14, $w15, $w16, $w17, $w18, $w19, $w20, $w21, $w22, $w23, $w24, $w25, $w26, $w27, $w28, $w29, $w30}
local present = window_at($starts, now)
if present < 14 or present > 16 then
  return pack('>I6I7', 10, now)
end

--@ section follow
local back = $at - now - $tolerance
if back > 0 then
  $at = $starts[window_at($starts, now)]
  if back > furthest then
    furthest = back
  end
end

--@ section level
$start, $level = 0, 0
if $used > 0 then
  $start, $level = $at, $used
  if now >= $at then
    local from = window_at($starts, $at)
    local ended = window_at($starts, now) - from
    $level = $used - ended * $limit
    if from > 0 then
      $start = $starts[from + ended]
    end
  end
end
if $level <= 0 then
  $start, $level = $starts[window_at($starts, now)], 0
end

--@ section free_window
$free = later_start($starts, $start, ceil(($level + cost) / $limit) - 1)

--@ section skip
skipped = (window_at($starts, moment) - window_at($starts, $start)) * $limit

--@ section charge
local skipped = 0
if moment > $start then
--@ do skip
end
if skipped > $level then
  $level = skipped
end
$level = $level + cost
if $level > 13 * $limit then
  $level = 13 * $limit
end
$at, $used = $start, $level

--@ section rest
if $level > 0 then
  rests = later_start($starts, $start, ceil($level / $limit))
end

--@ section rests_held

--@ section allotment_end

--@ section line_ends
local ends = now
if $level > $limit then
  ends = later_start($starts, $start, ceil($level / $limit) - 1)
end
