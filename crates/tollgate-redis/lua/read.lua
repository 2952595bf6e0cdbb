-- Reads one subject, and moves it along with a clock that has stepped back far.
--
-- A subject is: tag (6 bytes), when it was written (7), two numbers per meter (7 each), where somebody was promised a
-- place or everything is refused: until when the last promise reaches, since when and until when it is refused (7
-- each); then each list with its length in bytes before it (4). All numbers are unsigned and big-endian. The tag is
-- one byte that says "tollgate, this layout" and five of a fingerprint of the rules and their quotas; the layout with
-- a promise or a block has the next byte.
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
