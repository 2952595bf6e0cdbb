-- A take under one sliding log alone, without reading all of it: twin of tollgate-core/src/algorithm/log.rs.
--
-- Redis hashes every string that Lua sees, one and a half nanoseconds a byte. So a log is edited in place: its head says
-- how many entries there are and which had left the window, the next few tell who has left since, and a new one is
-- written into the room behind them. Before the head is written, last, nobody can see that entry. Anything unusual (a
-- promise or a block, a clock that stepped back, no room, half of the log to drop, somebody to wait) goes the general way.
local head = call('GETRANGE', KEYS[1], 0, 65)
if #head == 66 and cost > 0 and cost <= limit_1 then
  local found, _, length, last, dropped, count, gone, left, first, upto, line, total = unpack('>I6I7I4I7I5I4I4I5I7I5I7I5', head)
  if found == tag_1 and last <= now and line <= now and gone < count and dropped <= left and left <= total then
    local edge = now - window_1
    if first <= edge then
      -- Somebody has left since: the next few entries tell who. If they do not, too many have.
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
          return pack('>I6I7I7I7I7I7I7', 1, now, 0, now + 1, now, limit_1 - (total - left), line + window_1)
--@ if counting
            .. pack('>I7I7', now + 1, now)
--@ end
        end
--@ if uncounted
      elseif upto >= must_leave and first + window_1 - now > patience then
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
