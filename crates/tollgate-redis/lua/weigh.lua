-- Weighs the cost under one rule. Under one that counts refused requests a look passes only while a permit is left.
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
