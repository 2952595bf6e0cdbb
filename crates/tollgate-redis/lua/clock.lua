-- The time, read once: the server's, or in tests the one given.
local now, far = ARGV[2]
if now then
  now, far = tonumber(now), ARGV[3]
  if now > 4503599627370495 then
    now = 4503599627370495
  end
else
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
