-- Sections shared by the meters: algorithms whose state is two numbers.
--
-- A meter names this file as its base. It defines `level` and two sections that these use:
--   rest       sets `rests` to the time at which $level is used up, if any is used
--   line_ends  sets `ends` to the time up to which permits are reserved

--@ section rests
local rests = now
--@ do rest

--@ section look
remaining, rests = 0, now
if $level < $limit then
  remaining = $limit - $level
end
--@ do rest

--@ section is_last
--@ do line_ends
last = at >= ends
