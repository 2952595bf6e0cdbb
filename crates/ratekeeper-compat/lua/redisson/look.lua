-- The variables that settle.lua needs, for scripts without the fast path of plain.lua.
local stored = tonumber(call('GET', value_key))
local edge = format('%d', now - interval)
local due
