-- Charges a refused request to one rule that counts them: as much of the cost as is left now.
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
