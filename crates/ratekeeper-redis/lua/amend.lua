-- Every verb except take, for one key. Twin of ratekeeper-core/src/adjust.rs.
--
-- KEYS[1]  the key
-- KEYS[2]  for a commit, a cancel or an expiry: the record of the id, see record.lua
-- ARGV[1]  big-endian doubles: deadline, verb, cost, at (µs, -1 for none), lease (-1 for none; only with a concurrency
--          rule); tag; the numbers of the rules except the last of each; the last of each. Verbs: 0 peek, 1 refund,
--          2 penalize, 3 block (cost: µs, 0 ends a block), 4 release, 5 release the oldest (cost: permits), 6 heartbeat,
--          7 reset, 8 commit (cost: the actual cost), 9 cancel, 10 expire
-- ARGV[2], ARGV[3]  as in take.lua
--
-- reply    bytes, as in take.lua; code 1 is followed by the end of the block (7), a flag (1; whether the lease was held)
--          and, per rule, the remaining permits and the time of its initial state (7 each)
--          For a commit or a cancel: code 6 if the id is not known; else code 9, the permits charged in the end (7), then the
--          reply as above
-- writes   the key, last; nothing for a peek, unless the clock has stepped back so far that the state follows it
-- TTL      until the initial state; a key in its initial state is deleted
--@ include clock
--@ numbers deadline verb cost at lease
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
--@ if terms
--@ include finish
--@ end
--@ parties
--@ if prepaid
--@ else
if verb == 7 then
  call('DEL', KEYS[1])
end
--@ end
--@ include read
--@ if prepaid
-- Allotments are kept: their holders go on using them.
if verb == 7 then
--@ rules
--@ if list
--@ do unseen
--@ else
  $at, $used = 0, 0
--@ end
--@ end
  @promised, @since, @until, @moved = 0, 0, 0, true
end
--@ end
local held = false
--@ rules
--@ do level
--@ end
if verb == 1 and cost > 0 then
  local outstanding, last = @promised > now, false
  if outstanding and at >= 0 then
--@ if alone
--@ if prepaid
    -- Next to allotments the state does not show the end of its queue.
    if @allotments > 0 then
      last = at >= @promised
    else
--@ rules
--@ do is_last
--@ end
    end
--@ else
--@ rules
--@ do is_last
--@ end
--@ end
--@ else
    last = at >= @promised
--@ end
  end
  local cancels = last
--@ if prepaid
  cancels = last and @allotments == 0
--@ end
  last = last or not outstanding
--@ rules
  do
--@ do give_back
  end
--@ end
  if cancels then
    local furthest = 0
--@ if empty
    furthest = now
--@ end
--@ rules
    do
--@ do line_ends
      if ends > furthest then
        furthest = ends
      end
    end
--@ end
    if furthest < @promised then
      @promised = furthest
    end
  end
  @moved = true
elseif verb == 2 and cost > 0 then
--@ rules
  do
--@ do penalize
  end
--@ end
  @moved = true
elseif verb == 3 then
  @since, @until = 0, 0
  if cost > 0 then
    @since, @until = now, now + cost
  end
--@ rules
--@ if auto block
  if cost == 0 then
--@ do forgive
  end
--@ end
--@ end
  @moved = true
elseif verb == 4 then
--@ rules
--@ if leases
--@ do release
--@ end
--@ end
  @moved = @moved or held
elseif verb == 5 then
--@ rules
--@ if leases
--@ do release_oldest
--@ end
--@ end
  @moved = true
elseif verb == 6 then
--@ rules
--@ if leases
--@ do heartbeat
--@ end
--@ end
  @moved = @moved or held
end
local @new
if @moved then
--@ include write
end
local reply = pack('>I6I7I7I1', 1, now, @until, held and 1 or 0)
--@ include report
--@ end
--@ if terms
if finished ~= 1 then
  call('SET', KEYS[2], pack('>I1I7I7I7I7', 1, expires, charged, begun, leased) .. sub(record, 30), 'KEEPTTL')
end
reply = pack('>I6I7I7', 9, now, charged) .. reply
--@ end
return reply
