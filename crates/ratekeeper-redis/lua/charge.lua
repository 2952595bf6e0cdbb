-- Charges one key for local grants, once per operation id. Twin of ratekeeper-redis/src/ledger/book.rs.
--
-- KEYS[1]  the key
-- KEYS[2]  the highest operation id of one process that was executed for it; in the same slot
-- ARGV[1]  big-endian doubles: deadline, id (from 1), due (µs, the latest time of a grant); tag; the numbers of the rules
--          except the last of each; the last of each; per rule the permits to charge. Then, per concurrency rule: the
--          number of leases (4 bytes), each with id (7), permits (3) and expiry (7); the number of released leases (4),
--          each with its id (7)
-- ARGV[2], ARGV[3]  as in take.lua
--
-- reply    bytes, as in amend.lua with code 1; the flag is 1 if the charge was made now, 0 if the id was known
-- writes   the key and the id; nothing if the id is known and the clock has not stepped back
-- TTL      the key: until its initial state; the id: a minute longer
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
--@ do register
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
--@ include report
--@ end
return reply
