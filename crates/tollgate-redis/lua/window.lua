-- The fixed window that begins at multiples of its period, or with a key's first request. Twin of
-- tollgate-core/src/algorithm/window.rs.
--
-- numbers  permits per window, its length, what its beginnings are multiples of (1: any moment), how far back the
--          clock may step
-- state    at: start of the window; used: permits used in it and reserved in later ones
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
  $free = $start + (ceil(($level + cost) / $limit) - 1) * $per
end
$go = $free

--@ section charge
local skipped = 0
if moment > $start then
  skipped = floor((moment - $start) / $per) * $limit
end
if skipped > $level then
  $level = skipped
end
$level = $level + cost
$at, $used = $start, $level

--@ section rests
local rests = now
if $level > 0 then
  rests = $start + ceil($level / $limit) * $per
end

--@ section look
remaining, rests = 0, now
if $level < $limit then
  remaining = $limit - $level
end
if $level > 0 then
  rests = $start + ceil($level / $limit) * $per
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
  ends = $start + (ceil($level / $limit) - 1) * $per
end

--@ section is_last
local ends = now
if $level > $limit then
  ends = $start + (ceil($level / $limit) - 1) * $per
end
last = at >= ends
