-- Charges the allotments that have ended, once, and moves the others back with the clock. Twin of `Policy::settle_ended`.
if @allotments > 0 and (@first_end <= now or furthest > 0) then
  local live, records = {}, @records
  @allotted, @first_end, @last_end, @allotments = 0, 0, 0, 0
  for place = 1, #records, 27 do
    local id, seq, used, permits, ends = unpack('>I5I4I6I5I7', records, place)
    ends = ends - furthest
    -- 0 means that there is none.
    if ends < 1 then
      ends = 1
    end
    if ends <= now then
      local moment = ends - 1
      if moment < 0 then
        moment = 0
      end
--@ include past
      permits = 0
    end
    -- Kept while a reservation is outstanding, which may have been made next to what was held.
    if ends > now or @promised > now then
      @allotments = @allotments + 1
      live[@allotments] = pack('>I5I4I6I5I7', id, seq, used, permits, ends)
      @allotted = @allotted + permits
      if @first_end == 0 or ends < @first_end then
        @first_end = ends
      end
      if ends > @last_end then
        @last_end = ends
      end
    end
  end
  @records = concat(live)
end
