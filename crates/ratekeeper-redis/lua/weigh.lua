-- Computes when the cost passes under one rule. Under a rule that counts refused requests, a cost of 0 passes only while a
-- permit remains.
--@ if counting
local looks = cost == 0
if looks then
  cost = 1
end
--@ end
--@ do weigh
--@ if counting
if looks then
  cost, $go = 0, $free
end
--@ end
