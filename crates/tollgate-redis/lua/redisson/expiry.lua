-- How long the keys live: the keep-alive time from now on, else as long as the config does, else for ever.
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
