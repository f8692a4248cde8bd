-- tests/hostile/locales.lua: readers and writers of numbers in a locale that writes 1.5 as 1,5. Each
-- process makes the locale for itself; where that cannot be done it prints "skipped", and passes.

local MAKE = [[
  LOCPATH=$(dirname "$PWD"); export LOCPATH
  [ -e ../de_DE.UTF-8 ] || localedef -i de_DE -f UTF-8 ../de_DE.UTF-8 >/dev/null 2>&1 ]]
local START = [[
  if not os.setlocale "de_DE.UTF-8" then print "skipped" os.exit(0) end
  assert(("%.1f"):format(1.5) == "1,5")
]]

-- A row whose code prints `wanted`.
local function german(name, code, wanted)
  return { name, START .. code, setup = MAKE, exit = 0, out = wanted }
end

return {
  german("saving and loading", [[
    ml.save("x.st", { x = ml.tensor { 1.5 }, y = { 2.25, 1e300, -1e-300 } })
    local t = ml.load "x.st"
    os.remove "x.st"
    print(t.x:item() * 2 == 3, t.y[1] * 4 == 9, t.y[2] == 1e300, t.y[3] == -1e-300) ]], "true\ttrue\ttrue\ttrue"),
  german("a file of the C locale", [[
    os.setlocale "C"
    ml.save("x.st", { 1.5 })
    os.setlocale "de_DE.UTF-8"
    local t = ml.load "x.st"
    os.remove "x.st"
    print(t[1] * 2 == 3) ]], "true"),
  german("CSV", [[
    data.write_csv("x.csv", ml.tensor { { 1.5, 0.1 } })
    local file = io.open "x.csv"
    print(file:read "a")
    file:close()
    print(data.read_csv("x.csv"):sum():item() > 1.59)
    os.remove "x.csv" ]], "^1%.5,0%.1.*\n\ntrue"),
  german("CSV with decimal commas is refused", [[
    local file = io.open("x.csv", "w")
    file:write "1,5;2,5\n"
    file:close()
    print(pcall(data.read_csv, "x.csv", { separator = ";" }))
    os.remove "x.csv" ]], "false.*'1,5' is no number"),
  german("tensors print", [[ print(ml.tensor { 1.5, 2.25 }) ]], "{1%.5"),
  german("item and tolist", [[ print(ml.tensor { 1.5 }:item() == 3 / 2, ml.tensor { 1.5 }:tolist()[1] == 3 / 2) ]], "true\ttrue"),
  german("a tensor joined to a string", [[ print("loss " .. ml.tensor { 1.5 }) ]], "loss 1%.5"),
  german("JSON", [[
    local json = require "moonlet.json"
    print(json.encode { 1.5 }, json.decode "[2.5]"[1] * 2 == 5) ]], "%[1%.5%]\ttrue"),
  german("errors name numbers", [[ print(pcall(F.dropout, ml.ones(1), 1.5)) ]], "1%.5"),
  german("a picture", [[
    ml.plot.line({ 1.5, 2.5, 3.25 }):save "x.svg"
    local file = io.open "x.svg"
    local text = file:read "a"
    file:close()
    os.remove "x.svg"
    print(text:find '="%d+,%d+"' == nil, #text > 100) ]], "true\ttrue"),
  german("slices as text", [[ print(ml.arange(1, 5)["2:3"]:sum():item()) ]], "^5\n"),
  german("options as text", [[ print(ml.tensor({ 1.5 }, { dtype = "float64" }).dtype) ]], "float64"),
  german("load of numbers in code", [[ print(load "return 1.5"() * 2 == 3) ]], "true"),
  german("tonumber of both forms", [[ print(tonumber "1.5" * 2 == 3) ]], "true"),
  german("a network's tree", [[ print(nn.Dropout(0.5)) ]], "0%.5"),
  german("a state dict of an optimiser", [[
    local w = ml.ones{1, requires_grad = true}
    local adam = optim.Adam({ w }, { lr = 0.125 })
    ml.save("x.st", adam:state_dict())
    local state = ml.load "x.st"
    os.remove "x.st"
    print(state.param_groups[1].lr * 8 == 1) ]], "true"),
  german("a progress bar", [[
    for _ in require "moonlet.progress"({ 0.5, 1.5 }) do end
    print "end" ]], "end"),
  { "a locale that is not there", [[ return os.setlocale "xx_XX" ]], gives = "nil" },
  { "setlocale of rubbish", [[ return os.setlocale(("x"):rep(100000)), (pcall(os.setlocale, "C", "nothing")) ]], gives = "nil, false" },
  { "LC_ALL of rubbish", [[ print(ml.tensor { 1.5 }) ]], exit = 0, out = "1%.5", setup = "LC_ALL=xx_XX.rubbish; export LC_ALL" },
}
