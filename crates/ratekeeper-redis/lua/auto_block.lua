-- Automatic block of a key after denials. Twin of ratekeeper-core/src/algorithm/auto_block.rs.
--
-- numbers  limit: denials that lead to a block; within: µs in which they are counted; block: µs of a first block; grow:
--          factor of each further one; most: µs of the longest; tolerance: µs that the clock may step back without being
--          followed
-- state    at: the first denial counted or, without any, the start of the last block, µs; used: blocks in a row × 2^32
--          plus the denials counted
--
-- `length` is that of the last block, `ends` the end of the current one, 0 if there is none.
--@ base meter
--@ numbers limit within block grow most tolerance
--@ meter at used
--@ works denials blocks length ends
--@ outweighs false

--@ section follow
local back = $at - now - $tolerance
if back > 0 then
  $at = $at - back
  if back > furthest then
    furthest = back
  end
end

--@ section level
$blocks = floor($used / 4294967296)
$denials, $length, $ends = $used - $blocks * 4294967296, 0, 0
if $blocks > 0 then
  $length = $block
  for _ = 2, $blocks do
    if $length < $most then
      $length = $length * $grow
    end
  end
  if $length > $most then
    $length = $most
  end
end
if $used > 0 and $denials == 0 then
  if now < $at + $length then
    $ends = $at + $length
  elseif now >= $at + 2 * $length then
    $blocks, $length = 0, 0
  end
elseif $denials > 0 and now >= $at + $within then
  $denials = 0
  if now >= $at + $length then
    $blocks, $length = 0, 0
  end
end

--@ section weigh
$free = now
if $ends > 0 then
  $free = $ends
end
$go = $free

--@ section count
if $ends == 0 then
  $denials = $denials + 1
  if $denials >= $limit then
    if $blocks < 64 then
      $blocks = $blocks + 1
    end
    $at, $used = now, $blocks * 4294967296
  else
    if $denials == 1 then
      $at = now
    end
    $used = $blocks * 4294967296 + $denials
  end
  @moved = true
--@ do level
end

--@ section forgive
$at, $used = 0, 0
--@ do level

--@ section rest
if $denials > 0 then
  rests = $at + $within
  if $length > $within then
    rests = $at + $length
  end
elseif $blocks > 0 then
  -- The quiet time, after a block or after denials that were forgotten.
  rests = $at + $length
  if $used % 4294967296 == 0 then
    rests = rests + $length
  end
end

--@ section look
remaining, rests = 0, now
if $ends == 0 then
  remaining = $limit - $denials
end
--@ do rest

--@ section line_ends
local ends = now
