-- The permits of a grant. Every release of Redisson writes them last, as a 32-bit number in the server's byte order. The
-- bytes before differ:
--   3.21 and later    21 bytes   one byte of length (16), 16 random bytes
--   3.17 to 3.20      13 bytes   one byte of length (8), 8 random bytes
--   3.16.4 to 3.16.8  20 bytes   eight bytes of length (8), 8 random bytes
--   3.13.3 to 3.16.3   8 bytes   a random float
-- For anything else: nil, and the size of what was found.
local function permits_in(member)
  local size = #member
  if size == (member:byte() or 0) + 5 or size == 8 or size == 20 and unpack('L', member) == 8 then
    return (unpack('I', member, size - 3))
  end
  return nil, size
end
-- The permits of a list of grants; nil and the size of the first that cannot be read.
local function sum(members)
  local total = 0
  for i = 1, #members do
    local permits, strange = permits_in(members[i])
    if strange then
      return nil, strange
    end
    total = total + permits
  end
  return total
end
