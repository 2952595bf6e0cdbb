-- One take for one subject, or for several that share a slot: all of them are charged, or none. A refused one charges
-- the rules that count refused requests what they have left. Twin of tollgate-core/src/decide.rs and refused.rs.
--
-- KEYS     one per subject
-- ARGV[1]  doubles, big-endian: deadline, cost; per subject its tag, its part of the cost (only where there are
--          several; the first is then the largest) and the numbers of its rules, but for the last of each;
--          patience, longest (only where a rule is shaped or in shadow; else it is the patience), lease (only where
--          leases are kept); the last number of each rule. The deadline is the server's time after which nothing may
--          be charged any more; patience is how long the caller waits to be admitted, longest how far ahead it may be
--          told to go.
-- ARGV[2]  tests only: the time, in microseconds, instead of the server's; no deadline then
-- ARGV[3]  tests only: keys expire this many milliseconds after the epoch plus their time to live
--
-- reply    bytes; six of a code and seven of the time, then what the code says:
--          tag  one subject of plain meters was charged and goes at once; this is its new state
--          0    the same kind was refused or only looked at; its state follows, or nothing if it has none
--          1    allowed, 2 refused: until when it is blocked, then per rule when it is free (plus one; 0 means never),
--               when it goes, what remains and when it rests (7 each); then per rule that counts refused requests when it
--               is free (plus one; 0 means never) and when it goes from now on (7 each)
--          3    too late; nothing was done
--          4    not ours to read: which subject (1), and what was found
--
-- Reads each key once and writes it once, as the last thing. Nothing is written unless permits were charged (of a
-- refused request too, where a rule counts it), or the clock has stepped back so far that the state had to move with it.
--@ include clock
--@ numbers deadline cost | patience longest lease
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
--@ if plain
-- A plain try while the clock runs forward: twin of `try_quickly` and its like, on the path of most decisions.
local raw_1 = call('GET', KEYS[1])
local fits
if cost > 0 then
  local found, _<<quick_names>> = tag_1, 0<<quick_unseen>>
  if raw_1 then
    found = 0
    if #raw_1 == <<quick_size>> then
      found, _<<quick_names>> = unpack('<<quick_formats>>', raw_1)
    end
  end
  if found == tag_1 then
    local lives = 0
    fits = true
--@ parties
--@ rules
--@ do quick
--@ end
--@ end
    if fits then
      lives = ceil((lives - now) / 1000)
      local new = pack('<<quick_formats>>', tag_1, now<<quick_names>>)
      if far then
        call('SET', KEYS[1], new, 'PXAT', format('%d', lives + far))
      else
        call('SET', KEYS[1], new, 'PX', format('%d', lives))
      end
      return new
    end
  end
end
--@ end
--@ other numbers
--@ if lone log
--@ include lone_log
--@ end
--@ if plain
--@ if uncounted
if fits == false and patience == 0 then
  return pack('>I6I7', 0, now) .. (raw_1 or '')
end
--@ end
--@ end
--@ parties
--@ include read
--@ end
local free, go, blocked = now, now, 0
local never = false
--@ parties
--@ if several
cost = @cost
--@ end
if @until > blocked then
  blocked = @until
end
--@ rules
--@ do level
if $outweighs then
  $free, $go = -1, -1
--@ if enforcing
  never = true
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
--@ end
end
--@ end
--@ end
local refused = never or blocked > now or free - now > patience or go - now > longest
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
  -- Charged only if it would have let the request pass, and then for when it would have.
  if $free >= 0 and $free - now <= patience then
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
--@ parties
local @new
if @moved then
--@ include write
end
--@ end
local reply = pack('>I6I7I7', refused and 2 or 1, now, blocked)
--@ parties
--@ rules
do
  local remaining, rests
--@ do look
  reply = reply .. pack('>I7I7I7I7', $free + 1, $go < 0 and 0 or $go, remaining, rests)
end
--@ end
--@ end
--@ parties
--@ if several
cost = @cost
--@ end
--@ rules
--@ if counting
if $free >= 0 then
--@ include weigh
end
reply = reply .. pack('>I7I7', $free + 1, $go < 0 and 0 or $go)
--@ end
--@ end
--@ end
return reply
