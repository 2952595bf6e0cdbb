-- A holder's call: reports the permits that a process has used in advance, takes for the requests that wait there, and
-- grants more. Twin of `Policy::allot` in ratekeeper-core/src/allotment.rs, which has the argument for the bound.
--
-- KEYS[1]  the key
-- ARGV[1]  big-endian doubles below 2^53; times in µs:
--            deadline      server's time after which nothing is done
--            runs          their number
--            id, seq       the holder and the number of its call; a call that was overtaken does nothing
--            used          its running total of used permits
--            acknowledged  as much of it as the server has acknowledged; charged only if the allotment is unknown
--            keep          permits that it still holds
--            used_by       a time not before the last use
--            ends          the end of its allotment, as stated by the server
--            want, hold    permits asked for, and for how long
--            tag, the numbers of the rules except the last of each, the last of each
--            per run       as in merge.lua
-- ARGV[2], ARGV[3]  as in take.lua
--
-- reply    bytes, as in take.lua; code 5 is followed by the value before the call, if there was one: the caller computes
--          the decisions and the grant from it
-- writes   the key, last, if anything was charged, granted, or is recorded for the holder
-- TTL      until the initial state, if all held permits are used until they end
--@ include clock
--@ numbers deadline runs id seq used acknowledged keep used_by ends want hold
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
--@ parties
--@ include read
local own, own_seq, own_used, own_ends, others, first, last = 0, 0, 0, 0, 0, 0, 0
for place = 1, #@records, 27 do
  local found, found_seq, found_used, permits, found_ends = unpack('>I5I4I6I5I7', @records, place)
  if found == id then
    own, own_seq, own_used, own_ends = place, found_seq, found_used, found_ends
  else
    others = others + permits
    if first == 0 or found_ends < first then
      first = found_ends
    end
    if found_ends > last then
      last = found_ends
    end
  end
end
if own > 0 and seq <= own_seq then
  return pack('>I6I7', 5, now) .. (@raw or '')
end
do
  local permits, moment = 0, used_by
  if moment > now then
    moment = now
  end
  if own > 0 and own_ends > now then
    permits = used - own_used
    if own_ends - 1 < moment then
      moment = own_ends - 1
    end
    @moved = true
  elseif own == 0 and ends > now then
    -- The server's state was lost.
    permits = used - acknowledged
    @moved = @moved or permits > 0
  else
    keep = 0
  end
--@ include past
end
@allotted, @last_end = others + keep, last
if keep > 0 and now + hold > @last_end then
  @last_end = now + hold
end
--@ rules
--@ do level
--@ end
--@ runs
--@ include runs
ends = now + hold
local open = true
--@ rules
--@ if enforcing
--@ do allotment_end
--@ end
--@ end
if not open then
  keep, ends = 0, now
end
local granted = 0
if want > 0 and ends > now and @promised <= now and @until <= now and (own > 0 or @allotments < 64) then
  local room = 9007199254740991
--@ rules
--@ if enforcing
  do
    local remaining, rests
--@ do look
    if remaining < room then
      room = remaining
    end
  end
--@ end
--@ end
  granted = floor((room - others - keep) / 2)
  if granted > want then
    granted = want
  end
  if granted < 0 then
    granted = 0
  end
end
@allotted, @first_end, @last_end = others, first, last
if own > 0 or keep + granted > 0 then
  local record = pack('>I5I4I6I5I7', id, seq, used, keep + granted, ends)
  if own > 0 then
    @records = sub(@records, 1, own - 1) .. record .. sub(@records, own + 27)
  else
    @records, @allotments = @records .. record, @allotments + 1
  end
  @allotted, @moved = others + keep + granted, true
  if @first_end == 0 or ends < @first_end then
    @first_end = ends
  end
  if ends > @last_end then
    @last_end = ends
  end
end
local @new
if @moved then
--@ include write
end
return pack('>I6I7', 5, now) .. (@raw or '')
--@ end
