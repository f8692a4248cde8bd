-- interp/gen/front_samples.lua: what the front page of the HTML pages shows of running code: the
-- README's script with what it prints, and pictures that plots make. Run by the executable that was
-- built, so that both are what a reader gets.
-- usage: moonlet front_samples.lua ROOT OUTPUT, which writes OUTPUT/plot-NAME.svg and
-- OUTPUT/.samples.lua, a table { code, printed, pictures = { { file, title, code } } }

local root, output = arg[1], arg[2]

local pictures = {
  { name = "losses", title = "Training curves", code = [[
local ml = require "moonlet"
local nn, optim = ml.nn, ml.optim

local function losses(make)
  ml.manual_seed(1)
  local x = ml.randn(64, 8)
  local y = x:matmul(ml.randn(8, 1)) + 0.1 * ml.randn(64, 1)
  local net, out = nn.Linear(8, 1), {}
  local opt = make(net:parameters())
  for step = 1, 60 do
    opt:zero_grad()
    local loss = ml.mse_loss(net(x), y)
    loss:backward()
    opt:step()
    out[step] = loss:item()
  end
  return out
end

return ml.plot.line({
  SGD = losses(function(p) return optim.SGD(p, { lr = 0.02 }) end),
  Adam = losses(function(p) return optim.Adam(p, { lr = 0.1 }) end),
}, { title = "Loss", x_label = "step" })]] },
  { name = "clusters", title = "Points", code = [[
local ml = require "moonlet"

ml.manual_seed(2)
local function cluster(cx, cy)
  return { x = ml.randn(80) * 0.4 + cx, y = ml.randn(80) * 0.4 + cy }
end

return ml.plot.scatter({ cluster(-1, 0), cluster(1, 0.6), cluster(0.3, -1) },
  { title = "Three clusters", labels = { "a", "b", "c" } })]] },
  { name = "normal", title = "Distributions", code = [[
local ml = require "moonlet"

ml.manual_seed(3)
local d = ml.distributions.Gumbel(0, 1)
return ml.plot.histogram(d:sample { 5000 }, { bins = 40, title = "Gumbel(0, 1)" })]] },
  { name = "kernel", title = "Matrices", code = [[
local ml = require "moonlet"

local x = ml.linspace(-2, 2, 24):unsqueeze(2)
local kernel = (-(x - x:t()):pow(2)):exp()
return ml.plot.heatmap(kernel, { title = "A Gaussian kernel" })]] },
}

local function readme_script()
  local file = assert(io.open(root .. "/README.md", "rb"))
  local text = file:read "a"
  file:close()
  return assert(text:match "```lua\n(.-)\n```", "the README has no script")
end

local function printed_by(code)
  local lines = {}
  local env = setmetatable({ print = function(...)
    local parts = table.pack(...)
    for i = 1, parts.n do parts[i] = tostring(parts[i]) end
    lines[#lines + 1] = table.concat(parts, "\t")
  end }, { __index = _G })
  assert(load(code, "=circle.lua", "t", env))()
  return table.concat(lines, "\n")
end

local code = readme_script()
local out = { ("return { code = %q, printed = %q, pictures = {"):format(code, printed_by(code)) }
for _, picture in ipairs(pictures) do
  local file = ("plot-%s.svg"):format(picture.name)
  local figure = assert(load(picture.code, "=" .. picture.name, "t"))()
  figure:save(output .. "/" .. file, { width = 480, height = 300 })
  out[#out + 1] = ("{ file = %q, title = %q, code = %q },"):format(file, picture.title, picture.code)
end
out[#out + 1] = "} }\n"
local file = assert(io.open(output .. "/.samples.lua", "wb"))
file:write(table.concat(out, "\n"))
file:close()
