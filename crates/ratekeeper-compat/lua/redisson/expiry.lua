-- TTL of the keys: the keep-alive time from now on; without one, that of the configuration; without that, none.
-- plain.lua repeats the body: creating a closure there costs more than the commands.
local function prolong(keep_alive, value_key, permits_key)
  local lives = keep_alive
  if lives > 0 then
    call('PEXPIRE', KEYS[1], lives)
  else
    lives = call('PTTL', KEYS[1])
  end
  if lives > 0 then
    call('PEXPIRE', value_key, lives)
    call('PEXPIRE', permits_key, lives)
  end
end
