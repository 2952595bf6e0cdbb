-- Fast path of a policy of one sliding log, which edits the value in place. Twin of ratekeeper-core/src/algorithm/log.rs.
--
-- Redis hashes every string that Lua receives, at 1.5 ns a byte, so the log is not read as a whole. Its head has the
-- number of entries and of those that had left the window; the next few entries show which have left since. The new entry
-- is written into free room at the end, and becomes valid when the head is written, last. Every other case takes the
-- general path: a reservation or a block, a clock that stepped back, no room, half of the log expired, a wait.
local head = call('GETRANGE', KEYS[1], 0, 65)
--@ if terms
if least >= 0 then
  head = ''
end
--@ end
if #head == 66 and cost > 0 and cost <= limit_1 then
  local found, _, length, last, dropped, count, gone, left, first, upto, line, total = unpack('>I6I7I4I7I5I4I4I5I7I5I7I5', head)
  if found == tag_1 and last <= now and line <= now and gone < count and dropped <= left and left <= total then
    local edge = now - window_1
    if first <= edge then
      -- Entries have left the window: skips up to eight of them. If there are more, the general path is taken.
      local chunk = call('GETRANGE', KEYS[1], 66 + gone * 12, 66 + gone * 12 + 95)
      local place = 1
      while first <= edge and place < 96 and gone + 1 < count do
        gone, left, place = gone + 1, upto, place + 12
        if place < 96 then
          first, upto = unpack('>I7I5', chunk, place)
        end
      end
    end
    if first > edge then
      local must_leave = total + cost - limit_1
      if must_leave <= left then
        local room, index = (length - 49) / 12 - count, count
        if line >= now then
          index = count - 1
        end
        if gone * 2 < count and gone < index and (room > 0 or index < count) then
          total, line, count = total + cost, now, index + 1
          local lives = ceil(window_1 / 1000)
          call('SETRANGE', KEYS[1], 66 + index * 12, pack('>I7I5', now, total))
          if far then
            call('PEXPIREAT', KEYS[1], format('%d', lives + far))
          else
            call('PEXPIRE', KEYS[1], format('%d', lives))
          end
          call('SETRANGE', KEYS[1], 6,
            pack('>I7I4I7I5I4I4I5I7I5I7I5', now, length, now, dropped, count, gone, left, first, upto, line, total))
--@ if terms
          local reply, go = pack('>I6I7I7I7I7I7I7', 1, now, 0, now + 1, now, limit_1 - (total - left), line + window_1), now
--@ if counting
          reply = reply .. pack('>I7I7', now + 1, now)
--@ end
--@ parties
--@ include record
--@ end
          return reply
--@ else
          return pack('>I6I7I7I7I7I7I7', 1, now, 0, now + 1, now, limit_1 - (total - left), line + window_1)
--@ if counting
            .. pack('>I7I7', now + 1, now)
--@ end
--@ end
        end
--@ if uncounted
      elseif upto >= must_leave and first + window_1 - now > max_wait then
        local remaining = limit_1 - (total - left)
        if remaining < 0 then
          remaining = 0
        end
        return pack('>I6I7I7I7I7I7I7', 2, now, 0, first + window_1 + 1, first + window_1, remaining, line + window_1)
--@ end
      end
    end
  end
end
