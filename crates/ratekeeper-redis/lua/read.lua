-- Reads the value of one key, and moves its times back with a clock that has stepped back by more than the tolerance.
--
-- Value: tag (6 bytes), time of the write (7), two numbers per meter (7 each); with a reservation or a block: end of the
-- last reservation, start and end of the block (7 each); then each list, preceded by its length in bytes (4). All numbers
-- are unsigned and big-endian, times in µs. The tag is one byte for the layout and five of the fingerprint of the rules;
-- the layout with a reservation or a block has the next byte.
--@ if unread
local @raw = call('GET', KEYS[@@])
--@ end
local @promised, @since, @until, @moved = 0, 0, 0, false
--@ declare state
if @raw then
  local size, pos = #@raw, <<lists_at>>
  if size < <<fixed>> then
    return pack('>I6I7I1', 4, now, @@) .. @raw
  end
  local found, _
  <<state_names>> = unpack('<<state_formats>>', @raw)
  if found ~= @tag then
    if found ~= @tag + 1099511627776 or size < <<fixed>> + 21 then
      return pack('>I6I7I1', 4, now, @@) .. @raw
    end
    @promised, @since, @until, pos = unpack('>I7I7I7', @raw, pos)
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
end
