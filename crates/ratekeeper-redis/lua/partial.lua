-- Reduces the costs to the largest that passes now, but not below `least`. Twin of ratekeeper-core/src/partial.rs.
if least >= 0 and least < cost then
  local most = cost
--@ parties
--@ if several
  if @cost > 0 then
--@ end
--@ rules
--@ if enforcing
--@ if auto block
--@ else
    do
      local remaining, rests
--@ do level
--@ include look
      if remaining < most then
        most = remaining
      end
    end
--@ end
--@ end
--@ end
--@ if several
  end
--@ end
--@ end
  cost = most
  if cost < least then
    cost = least
  end
--@ parties
--@ if several
  if @cost > cost then
    @cost = cost
  end
--@ end
--@ end
end
local granted = cost
