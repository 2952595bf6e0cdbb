-- A take of one key, or of several that share a slot: all of them are charged, or none. A refused take charges the rules
-- that count refused requests. Twin of ratekeeper-core/src/evaluate.rs and refused.rs.
--
-- KEYS     the keys; for a request with an id, then the records of its id, one per key
-- ARGV[1]  big-endian doubles below 2^53; times in µs:
--            deadline   server's time after which nothing is charged
--            cost       permits; with several keys, the largest of their costs
--            per key    tag, cost (only with several keys), the numbers of its rules except the last of each
--            max_wait   longest wait until the request is admitted
--            longest    longest wait until it may proceed (only with a shaped or shadow rule; else equal to max_wait)
--            lease      id of the lease (only with a concurrency rule)
--            the last number of each rule
--            with terms, three more: least (the least cost that is accepted; -1 for the whole cost), lifetime (of the id, µs),
--            refunds (1: refunded when the lifetime ends; else 0); then the wait as the caller gave it, for the record:
--            µs (7 bytes), whether it bounds the whole wait (1)
-- ARGV[2]  tests only: the time, in µs, instead of the server's; then there is no deadline
-- ARGV[3]  tests only: milliseconds since 1970 at which a key with a TTL of 0 expires
--
-- reply    bytes: code (6) and server's time (7), then by code:
--          tag  one key of plain meters was charged and proceeds at once; this is its new value
--          0    such a key was refused or peeked at; its value follows, if it has one
--          1    allowed, 2 refused: end of the block; per rule the time at which it admits the request (plus 1; 0 is
--               never), the time at which it proceeds, the remaining permits, the time of its initial state; then per
--               rule that counts refused requests the first two again, after the charge (7 bytes each)
--          3    after the deadline; nothing was done
--          4    the value of a key cannot be read under these rules: number of the key (1) and its value
--          8    the id was charged before: its record, see record.lua
--          9    for a request with a least cost: the permits charged (7), then a reply as above
--
-- writes   each key once, last, and only if permits were charged or the clock has stepped back so far that the state
--          follows it
-- TTL      until the initial state; a key in its initial state is deleted
--@ include clock
--@ numbers deadline cost | max_wait longest lease
if now > deadline and not far then
  return pack('>I6I7', 3, now)
end
--@ if terms
local least, lifetime, refunds = unpack('>ddd', ARGV[1], #ARGV[1] - 31)
--@ end
--@ if plain
-- Fast path of most decisions: plain meters, no wait, clock not stepped back. Twin of `Algorithm::try_quickly`.
local raw_1 = call('GET', KEYS[1])
local fits
--@ if terms
if cost > 0 and least < 0 then
--@ else
if cost > 0 then
--@ end
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
--@ if terms
      -- Records the request, unless its id was charged before.
      if KEYS[2] then
        local ends = ceil((lifetime + refunds * 3600000000) / 1000)
        local record = pack('>I1I7I7I7I7', refunds * 2, now + lifetime, cost, now, 0) .. sub(ARGV[1], -8) .. new
        local first
        if far then
          first = call('SET', KEYS[2], record, 'NX', 'GET', 'PXAT', format('%d', ends + far))
        else
          first = call('SET', KEYS[2], record, 'NX', 'GET', 'PX', format('%d', ends))
        end
        if first then
          if unpack('>I7', first, 2) > now then
            return pack('>I6I7', 8, now) .. first
          end
          call('SET', KEYS[2], record, 'KEEPTTL')
        end
      end
--@ end
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
--@ if terms
--@ parties
--@ include repeat
--@ end
--@ end
--@ other numbers
--@ if lone log
--@ include lone_log
--@ end
--@ if plain
--@ if uncounted
if fits == false and max_wait == 0 then
  return pack('>I6I7', 0, now) .. (raw_1 or '')
end
--@ end
--@ end
--@ parties
--@ include read
--@ end
--@ if terms
--@ include partial
--@ end
--@ include decide
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
--@ include look
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
--@ if terms
if least >= 0 then
  reply = pack('>I6I7I7', 9, now, refused and 0 or granted) .. reply
end
if not refused then
--@ parties
--@ if several
cost = @cost
--@ end
--@ include record
--@ end
end
--@ end
return reply
