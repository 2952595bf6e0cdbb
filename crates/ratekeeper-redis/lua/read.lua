-- Reads the value of one key, and moves its times back with a clock that has stepped back by more than the tolerance.
--
-- Value: tag (6 bytes), time of the write (7), two numbers per meter (7 each); with a reservation or a block: end of the
-- last reservation, start and end of the block (7 each); then each list, preceded by its length in bytes (4). All numbers
-- are unsigned and big-endian, times in µs. The tag is one byte for the layout and five of the fingerprint of the rules;
-- the layout with a reservation or a block has the next byte.
--
-- The layout with allotments has the byte after that. After the end of the block: permits held by all (5), the first and
-- the last end of an allotment (7 each), their number (1); per allotment the holder's id (5), the number of its last call
-- (4), its running total of used permits (6), permits held (5) and end (7).
--@ if unread
local @raw = call('GET', KEYS[@@])
--@ end
local @promised, @since, @until, @moved = 0, 0, 0, false
--@ if prepaid
local @allotted, @first_end, @last_end, @allotments, @records = 0, 0, 0, 0, ''
--@ end
--@ declare state
if @raw then
  local size, pos = #@raw, <<lists_at>>
  if size < <<fixed>> then
    return pack('>I6I7I1', 4, now, @@) .. @raw
  end
  local found, _
  <<state_names>> = unpack('<<state_formats>>', @raw)
  if found ~= @tag then
--@ if prepaid
    if found == @tag + 2199023255552 and size >= <<fixed>> + 41 then
      @allotted, @first_end, @last_end, @allotments = unpack('>I5I7I7I1', @raw, pos + 21)
      if size < <<fixed>> + 41 + @allotments * 27 then
        return pack('>I6I7I1', 4, now, @@) .. @raw
      end
      @records = sub(@raw, pos + 41, pos + 40 + @allotments * 27)
    elseif found ~= @tag + 1099511627776 or size < <<fixed>> + 21 then
      return pack('>I6I7I1', 4, now, @@) .. @raw
    end
--@ else
    if found ~= @tag + 1099511627776 or size < <<fixed>> + 21 then
      return pack('>I6I7I1', 4, now, @@) .. @raw
    end
--@ end
    @promised, @since, @until, pos = unpack('>I7I7I7', @raw, pos)
--@ if prepaid
    if @allotments > 0 then
      pos = pos + 20 + @allotments * 27
    end
--@ end
    local back = @since - now - 1000000
    if back > 0 then
      @since, @until, @moved = @since - back, @until - back, true
    end
  end
--@ rules
--@ if list
  if size < pos + 3 + <<smallest_list>> then
    return pack('>I6I7I1', 4, now, @@) .. @raw
  end
--@ do read
--@ end
--@ end
  if pos ~= size + 1 then
    return pack('>I6I7I1', 4, now, @@) .. @raw
  end
  local furthest = 0
--@ rules
--@ do follow
--@ end
  if furthest > 0 then
    @moved = true
    @promised = @promised - furthest
    if @promised < 0 then
      @promised = 0
    end
  end
--@ if prepaid
--@ include settle
--@ end
end
