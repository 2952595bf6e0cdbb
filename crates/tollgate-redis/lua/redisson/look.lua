-- What plain.lua gives to acquire.lua, for those that have no fast way.
local stored = tonumber(call('GET', value_key))
local edge = format('%d', now - interval)
local due
