-- Turns a commit, a cancel or the expiry of an id into a refund or a charge, by the record of the request. Twin of
-- ratekeeper-core/src/record.rs.
local record = call('GET', KEYS[2])
local finished, expires, charged, begun, leased = 0, 0, 0, 0, 0
if record then
  finished, expires, charged, begun, leased = unpack('>I1I7I7I7I7', record)
end
if not record or (expires <= now and verb ~= 10) then
  return pack('>I6I7', 6, now)
end
if verb == 10 and (finished ~= 2 or expires > now) then
  finished = 1
end
if finished == 1 then
  verb = 0
elseif verb >= 9 then
  verb, cost, at, charged = 1, charged, begun, 0
--@ if leasing
  if leased > 0 then
    lease = leased
  end
--@ end
elseif cost <= charged then
  verb, cost, at, charged = 1, charged - cost, begun, cost
else
  verb, cost, charged = 2, cost - charged, cost
end
