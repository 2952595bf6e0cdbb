-- Charges a refused request to one rule that counts refused requests: as much of the cost as remains now. An automatic
-- block counts it if the key's rules deny it.
--@ if auto block
if @denied then
--@ do count
end
--@ else
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
--@ end
