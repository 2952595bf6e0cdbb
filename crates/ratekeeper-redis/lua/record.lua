-- Records the charge of one key under the id of its request, with the reply.
--
-- Record: 0 open, 1 finished, 2 open and refunded when it expires (1 byte), the end of its lifetime (7), permits charged (7), the time at which they go
-- (7), the id of their lease or 0 (7), the wait as the caller gave it (8), the reply. One that is refunded is kept for an hour longer.
if cost > 0 and KEYS[@@ + <<keys>>] then
  local held, ends = 0, ceil((lifetime + refunds * 3600000000) / 1000)
--@ if leasing
  held = lease
--@ end
  local record = pack('>I1I7I7I7I7', refunds * 2, now + lifetime, cost, go, held) .. sub(ARGV[1], -8) .. reply
  if far then
    call('SET', KEYS[@@ + <<keys>>], record, 'PXAT', format('%d', ends + far))
  else
    call('SET', KEYS[@@ + <<keys>>], record, 'PX', format('%d', ends))
  end
end
