-- Returns the record of a request whose id was charged before and whose lifetime has not ended.
if KEYS[@@ + <<keys>>] then
  local record = call('GET', KEYS[@@ + <<keys>>])
  if record and unpack('>I7', record, 2) > now then
    return pack('>I6I7', 8, now) .. record
  end
end
