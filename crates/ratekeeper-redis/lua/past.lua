-- Charges `permits` that were used by `moment`, a time in the past, to all rules of a key. A shadow rule is charged for what
-- it would have admitted. Twin of `Policy::charge_past`.
if permits > 0 then
  local present = now
--@ rules
  do
    local now, cost, forgotten = moment, permits, false
--@ if enforcing
--@ else
--@ do level
    local remaining, rests
--@ do look
    if remaining < cost then
      cost = remaining
    end
--@ end
--@ do not_before
--@ do level
--@ do forget
    if cost > 0 and not forgotten then
--@ do penalize
    end
  end
--@ end
end
