-- Writes the value of one key, with a TTL until its initial state. A key in its initial state is deleted.
local lives = @until
if @promised > lives then
  lives = @promised
end
--@ rules
do
--@ do rests
  if rests > lives then
    lives = rests
  end
--@ if prepaid
--@ if enforcing
  if @allotted > 0 then
--@ do rests_held
    if rests > lives then
      lives = rests
    end
  end
--@ end
--@ end
end
--@ end
--@ if prepaid
if @allotments > 0 and @last_end > lives then
  lives = @last_end
end
--@ end
lives = ceil((lives - now) / 1000)
if lives <= 0 then
  call('DEL', KEYS[@@])
else
--@ rules
--@ if list
  do
--@ do pack
  end
--@ end
--@ end
--@ if prepaid
  if @allotments > 0 then
    if @promised <= now then
      @promised = 0
    end
    if @until <= now then
      @since, @until = 0, 0
    end
    @new = pack('<<allotted_formats>>', @tag + 2199023255552, now, <<meter_values>>@promised, @since, @until, @allotted, @first_end,
      @last_end, @allotments) .. @records<<lists>>
  elseif @promised > now or @until > now then
--@ else
  if @promised > now or @until > now then
--@ end
    @new = pack('<<extra_formats>>', @tag + 1099511627776, now, <<meter_values>>@promised, @since, @until)<<lists>>
  else
    @new = pack('<<plain_formats>>', @tag, now<<more_meter_values>>)<<lists>>
  end
  if far then
    call('SET', KEYS[@@], @new, 'PXAT', format('%d', lives + far))
  else
    call('SET', KEYS[@@], @new, 'PX', format('%d', lives))
  end
end
