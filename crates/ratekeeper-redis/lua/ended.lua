-- Forgets a reservation and a block that have ended, once the state has changed: a value that is written has none.
if @moved and @promised <= now and @until <= now then
  @promised, @since, @until = 0, 0, 0
end
