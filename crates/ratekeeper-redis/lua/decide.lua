-- Weighs a request under all rules of its keys and charges it: all of them, or none. Sets `refused`, `blocked` and, per
-- rule, the times at which it admits the request and at which the request proceeds. A refused request charges the rules
-- that count refused requests.
local free, go, blocked = now, now, 0
local never = false
--@ parties
--@ if several
cost = @cost
--@ end
if @until > blocked then
  blocked = @until
end
--@ if auto block
local @denied = false
--@ end
--@ rules
--@ do level
if $outweighs then
  $free, $go = -1, -1
--@ if enforcing
  never = true
--@ if denials
  @denied = true
--@ end
--@ end
else
--@ include weigh
--@ if enforcing
  if $free > free then
    free = $free
  end
  if $go > go then
    go = $go
  end
--@ if denials
  if $free - now > max_wait or $go - now > longest then
    @denied = true
  end
--@ end
--@ end
end
--@ end
--@ end
local refused = never or blocked > now or free - now > max_wait or go - now > longest
--@ parties
--@ if several
cost = @cost
--@ end
if not refused and cost > 0 then
--@ rules
--@ if enforcing
  do
    local moment = go
--@ do charge
  end
--@ else
  -- A shadow rule is charged only if it would have admitted the request, and for that time.
  if $free >= 0 and $free - now <= max_wait then
    local moment = go
    if $free > moment then
      moment = $free
    end
--@ do charge
--@ if counting
  else
--@ include count
--@ end
  end
--@ end
--@ end
  if go > now and go > @promised then
    @promised = go
  end
  @moved = true
--@ if counting
elseif cost > 0 then
--@ rules
--@ if counting
--@ include count
--@ end
--@ end
--@ end
end
--@ end
