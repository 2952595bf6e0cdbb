-- Fixed window that starts at multiples of its period, or with a key's first request. Twin of
-- ratekeeper-core/src/algorithm/window.rs.
--
-- numbers  limit: permits per window; per: its length, µs; align: windows start at multiples of this, µs (1: at any
--          time); tolerance: µs that the clock may step back without being followed
-- state    at: start of the window, µs; used: permits used in it and reserved in later ones
--@ base meter
--@ numbers limit per align tolerance
--@ meter at used
--@ works start level
--@ outweighs cost > $limit

--@ section follow
local back = $at - now - $tolerance
if back > 0 then
  $at = now - now % $align
  if back > furthest then
    furthest = back
  end
end

--@ section level
$start, $level = 0, 0
if $used > 0 then
  $start, $level = $at, $used
  if now > $at then
    local ended = floor((now - $at) / $per)
    $start, $level = $at + ended * $per, $used - ended * $limit
  end
end
if $level <= 0 then
  $start, $level = now - now % $align, 0
end

--@ section weigh
$free = now
if $level + cost > $limit and cost > 0 then
--@ do free_window
end
$go = $free

--@ section free_window
$free = $start + (ceil(($level + cost) / $limit) - 1) * $per

--@ section charge
local skipped = 0
if moment > $start then
--@ do skip
end
if skipped > $level then
  $level = skipped
end
$level = $level + cost
$at, $used = $start, $level

--@ section skip
skipped = floor((moment - $start) / $per) * $limit

--@ section rest
if $level > 0 then
  rests = $start + ceil($level / $limit) * $per
end

--@ section rests_held
local from, windows = @last_end - @last_end % $align, 1
if $start > from then
  from = $start
end
if $level > $limit then
  windows = ceil($level / $limit)
end
rests = from + windows * $per

--@ section forget
-- What was used in a window that has ended does not count any more.
forgotten = $start > moment and $start <= present

--@ section allotment_end
-- A window that starts with the first request is opened by takes alone, and allotments end with it.
if $align == 1 then
  if $level == 0 then
    open = false
  elseif $start + $per < ends then
    ends = $start + $per
  end
end

--@ section quick
if $at > now then
  fits = nil
elseif fits then
  local ended = floor((now - $at) / $per)
  $at, $used = $at + ended * $per, $used - ended * $limit
  if $used <= 0 then
    $at, $used = now - now % $align, 0
  end
  $used = $used + cost
  fits = $used <= $limit
  local rests = $at + ceil($used / $limit) * $per
  if rests > lives then
    lives = rests
  end
end

--@ section penalize
-- Permits used up cannot be used up further: a penalty fills at most the last window in use.
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
-- Permits taken in a window that has ended are not returned to the current one.
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
  ends = $start + (ceil($level / $limit) - 1) * $per
end


