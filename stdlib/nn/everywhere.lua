-- stdlib/nn/everywhere.lua: the hooks of all modules (stdlib/nn/hooks.lua), in a table of their own
-- so that the guards of compiled functions see them before the modules are loaded.

return { hooks = {} }
