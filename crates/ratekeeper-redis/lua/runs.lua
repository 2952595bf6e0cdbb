-- Takes in runs of equal numbers, one after the other at one time. The takes of a run that proceed at once are one charge;
-- after the first that is refused, the others of its run are refused as well.
for run = 1, runs do
  local count, cost, max_wait, longest = unpack('>dddd', ARGV[1], place)
  place = place + 32
--@ include ended
--@ if additive
  -- All takes that proceed at once are one charge.
  if @until <= now then
    local fit = count
--@ rules
    do
      local remaining, rests
--@ include look
      remaining = floor(remaining / cost)
      if remaining < fit then
        fit = remaining
      end
    end
--@ end
    if fit > 0 then
      local cost, moment = fit * cost, now
--@ rules
      do
--@ do charge
      end
--@ end
      count, @moved = count - fit, true
    end
  end
--@ end
  while count > 0 do
--@ include ended
--@ if counting
    local moved = @moved
    @moved = false
--@ end
--@ include decide
--@ if counting
    local counted = @moved
    @moved = moved or counted
    if refused and not counted then
      break
    end
--@ else
    -- Then the others of the run are refused as well: nothing has changed.
    if refused then
      break
    end
--@ end
    count = count - 1
  end
end
