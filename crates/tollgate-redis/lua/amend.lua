-- Any verb but a take, for one subject.
--
-- KEYS[1]  the subject
-- ARGV[1]  doubles, big-endian: deadline, verb, cost, at, lease (only where leases are kept); the subject's tag and
--          the numbers of its rules, but for the last of each; those. at and lease are -1 where there is none. Verbs: 0 look, 1 give back, 2 penalize, 3 block (cost: how long),
--          4 release, 5 release the oldest (cost: how many), 6 heartbeat, 7 reset
-- ARGV[2], ARGV[3]  as for a take
--
-- reply    bytes, as for a take; with the code
--          1    done: until when it is blocked (7), whether the lease was held (1), then per rule what remains and when
--               it rests (7 each)
--@ include clock
--@ numbers deadline verb cost at lease
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
if verb == 7 then
  call('DEL', KEYS[1])
end
--@ parties
--@ include read
local held = false
--@ rules
--@ do level
--@ end
if verb == 1 and cost > 0 then
  local outstanding, last = @promised > now, false
  if outstanding and at >= 0 then
--@ if alone
--@ rules
--@ do is_last
--@ end
--@ else
    last = at >= @promised
--@ end
  end
  local cancels = last
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
--@ rules
do
  local remaining, rests
--@ do look
  reply = reply .. pack('>I7I7', remaining, rests)
end
--@ end
--@ end
return reply
