-- Permits in a grant. It is a byte of length, so many random bytes, and the permits as the server's own 32-bit number: 21
-- bytes today, 13 before 3.21. Anything else was written before 3.17, and nobody can read it any more: 8 bytes (3.13.3 to
-- 3.16.3) or 20 (3.16.4 to 3.16.8). Then there is no number, but the size of what was found.
local function permits_in(member)
  local size = #member
  if size == 8 or size ~= (member:byte() or 0) + 5 then
    return nil, size
  end
  return (unpack('I', member, size - 3))
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
