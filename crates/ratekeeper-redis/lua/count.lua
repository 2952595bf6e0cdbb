-- Charges a refused request to one rule that counts refused requests: as much of the cost as remains now.
do
  local remaining, rests
--@ do look
  if remaining > cost then
    remaining = cost
  end
  if remaining > 0 then
    local cost, moment = remaining, now
--@ do charge
    @moved = true
  end
end
