-- Charges one subject for grants that were made without the store, once per operation id.
-- Twin of tollgate-redis/src/ledger/book.rs.
--
-- KEYS[1]  the subject
-- KEYS[2]  the highest operation id of one process that was carried out for it; in the same slot
-- ARGV[1]  doubles, big-endian: deadline, id, due; the subject's tag and the numbers of its rules, but for the last of
--          each; those; per rule the permits to charge. due is the latest moment that one of the grants goes. Then, per
--          rule that keeps leases: how many leases (4 bytes), each with its name (7), permits (3) and end (7); how many
--          leases have ended (4), each with its name (7)
-- ARGV[2], ARGV[3]  as for a take
--
-- reply    bytes, as for a verb that is not a take: code 1, until when it is blocked (7), whether the charge was made
--          now (1; 0 if the id is known), then per rule what remains and when it rests (7 each)
--
-- Writes the subject and the id, or nothing if the id is known. The id lives a minute longer than the subject.
--@ include clock
--@ numbers deadline id due
--@ owed
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
local known = call('GET', KEYS[2])
local fresh = not known or tonumber(known) < id
--@ parties
--@ include read
--@ rules
--@ do level
--@ end
local @new
if fresh then
  local ahead = false
--@ rules
--@ if leases
  do
    local count
    local joins, parts = {}, {}
    count, listed = unpack('>I4', ARGV[1], listed)
    for one = 1, count do
      local id, permits, ends
      id, permits, ends, listed = unpack('>I7I3I7', ARGV[1], listed)
      joins[one] = { id, permits, ends }
    end
    count, listed = unpack('>I4', ARGV[1], listed)
    for one = 1, count do
      parts[one], listed = unpack('>I7', ARGV[1], listed)
    end
    if #joins + #parts > 0 then
--@ do bring_up_to_date
      for one = 1, #parts do
        local lease = parts[one]
--@ do find
        if found > 0 then
--@ do remove
        end
      end
      for one = 1, #joins do
        local lease, permits, ends = joins[one][1], joins[one][2], joins[one][3]
        if ends > $last then
          local id = lease
--@ do find
          if found > 0 then
            if $untils[found] > ends then
              ends = $untils[found]
            end
--@ do remove
          end
--@ do insert
        end
      end
--@ do level
    end
  end
--@ else
  if $owed > 0 then
    local cost = $owed
    if due > now then
      local moment = due
      ahead = true
--@ do charge
    else
--@ do penalize
    end
  end
--@ end
--@ end
  if ahead and due > @promised then
    @promised = due
  end
--@ include write
  if lives < 0 then
    lives = 0
  end
  if far then
    call('SET', KEYS[2], format('%d', id), 'PXAT', format('%d', lives + 60000 + far))
  else
    call('SET', KEYS[2], format('%d', id), 'PX', format('%d', lives + 60000))
  end
elseif @moved then
--@ include write
end
local reply = pack('>I6I7I7I1', 1, now, @until, fresh and 1 or 0)
--@ rules
do
  local remaining, rests
--@ do look
  reply = reply .. pack('>I7I7', remaining, rests)
end
--@ end
--@ end
return reply
