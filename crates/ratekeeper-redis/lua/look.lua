-- Sets `remaining` and `rests` of one rule. Permits that processes hold are not remaining.
--@ do look
--@ if prepaid
--@ if enforcing
if @allotted > 0 then
  local plain = rests
  remaining = remaining - @allotted
  if remaining < 0 then
    remaining = 0
  end
--@ do rests_held
  if plain > rests then
    rests = plain
  end
end
--@ end
--@ end
