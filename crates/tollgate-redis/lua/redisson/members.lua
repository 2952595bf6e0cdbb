-- Permits in a list of grants. A grant is a byte of length, so many random bytes, and the permits as the server's own
-- 32-bit number: 21 bytes today, 13 before 3.21. Anything else was written before 3.17, and nobody can read it any more:
-- 8 bytes (3.13.3 to 3.16.3) or 20 (3.16.4 to 3.16.8). Then there is no sum, but the size of what was found.
local function sum(members)
  local total = 0
  for i = 1, #members do
    local member = members[i]
    local size = #member
    if size == 8 or size ~= (byte(member) or 0) + 5 then
      return nil, size
    end
    total = total + unpack('I', member, size - 3)
  end
  return total
end
