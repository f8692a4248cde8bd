-- tests/small/hello.lua: what hosts of chosen ops run.
local ml = require "moonlet"
local a = ml.tensor { { 1, 2 }, { 3, 4 } } + ml.ones(2, 2)
print(a:sum():item())
print(a)
