-- tests/run_library/program.lua: writes a LeNet, what goes in and what must come out as bytes, and a program with
-- an op that the library is built without; compares its ops with the list of the build.
-- usage: moonlet program.lua FOLDER OPS_FILE

local ml = require "moonlet"
local nn = ml.nn
local folder, list = arg[1], arg[2]

local function write(name, bytes)
  local file <close> = assert(io.open(folder .. "/" .. name, "wb"))
  file:write(bytes)
end

ml.manual_seed(1)
local net = nn.Sequential(nn.Conv2d(1, 6, 5, { padding = 2 }), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5),
  nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 10), nn.LogSoftmax(2))
local x = ml.randn(1, 1, 28, 28)
local program = ml.export(net, { x })
local wanted = {}
for line in io.lines(list) do
  if not line:find "^#" then wanted[#wanted + 1] = line end
end
assert(table.concat(program:ops(), " ") == table.concat(wanted, " "), "ops.txt does not list the program's ops")
program:save(folder .. "/net.mlp")
write("input", x:to_bytes())
write("output", ml.no_grad(net, x):to_bytes())
ml.export(function(y) return y:erf() end, { ml.ones(2) }):save(folder .. "/other.mlp")
