-- Permits in a grant. Every release writes them last, as the server's own 32-bit number, behind bytes that differ:
--   3.21 and later    21 bytes   a byte of length (16) and so many random bytes
--   3.17 to 3.20      13 bytes   the same with 8
--   3.16.4 to 3.16.8  20 bytes   eight bytes of length (8) and so many random bytes
--   3.13.3 to 3.16.3   8 bytes   a random float
-- Of anything else there is no number, but the size of what was found.
local function permits_in(member)
  local size = #member
  if size == (member:byte() or 0) + 5 or size == 8 or size == 20 and unpack('L', member) == 8 then
    return (unpack('I', member, size - 3))
  end
  return nil, size
end
-- Permits in a list of grants, or nothing and the size of one that cannot be read.
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
