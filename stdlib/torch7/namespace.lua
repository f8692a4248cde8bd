-- stdlib/torch7/namespace.lua: the table `torch`, which the modules beside it fill.

return {}
