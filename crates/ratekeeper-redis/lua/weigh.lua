-- Computes when the cost passes under one rule. Under a rule that counts refused requests, a cost of 0 passes only while a
-- permit remains.
--@ if counting
local looks = cost == 0
if looks then
  cost = 1
end
--@ end
--@ if prepaid
--@ if enforcing
-- Held permits may be used at any time. A cost that does not fit next to them is refused until they end.
if @allotted > 0 and cost > 0 then
  local asked = cost
  cost = cost + @allotted
  if $outweighs then
    $free = now + (longest < max_wait and longest or max_wait) + 1
    if @last_end > $free then
      $free = @last_end
    end
    $go = $free
  else
--@ do weigh
  end
  cost = asked
else
--@ do weigh
end
--@ else
--@ do weigh
--@ end
--@ else
--@ do weigh
--@ end
--@ if counting
if looks then
  cost, $go = 0, $free
end
--@ end
