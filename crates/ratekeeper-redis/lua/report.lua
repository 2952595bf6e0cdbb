-- Appends to the reply, per rule, the remaining permits and the time of its initial state (7 bytes each).
--@ rules
do
  local remaining, rests
--@ include look
  reply = reply .. pack('>I7I7', remaining, rests)
end
--@ end
