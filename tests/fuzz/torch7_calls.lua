-- tests/fuzz/torch7_calls.lua: random calls, mostly wrong, of all that Torch7's module has: each ends or raises
-- an error that is a text.
-- usage: moonlet torch7_calls.lua COUNT [SEED]

local torch = require "torch"

local COUNT, SEED = tonumber(arg[1] or "2000"), tonumber(arg[2] or "1")
math.randomseed(SEED)
local draw = math.random

-- Those that write files, run programs, define names or change the process.
local LEFT_OUT = { save = true, load = true, saveobj = true, loadobj = true, include = true, class = true,
  newmetatable = true, setmetatable = true, setnumthreads = true, setdefaulttensortype = true, PipeFile = true,
  DiskFile = true, CmdLine = true, Tester = true, setenv = true, __gc = true, __close = true }

local ELEMENTS = { "Double", "Float", "Long", "Byte", "Half", "Int" }

local function functions()
  local out = {}
  local function add(of, prefix)
    for name, f in pairs(of) do
      if type(f) == "function" and type(name) == "string" and not LEFT_OUT[name] then
        out[#out + 1] = { name = prefix .. name, call = f }
      end
    end
  end
  for _, element in ipairs(ELEMENTS) do
    add(getmetatable(torch[element .. "Tensor"]()), element .. "Tensor.")
    add(getmetatable(torch[element .. "Storage"]()), element .. "Storage.")
  end
  add(torch, "torch.")
  table.sort(out, function(a, b) return a.name < b.name end)
  return out
end

local SHAPES = {
  function(class) return class() end,
  function(class) return class(3):fill(draw(3)) end,
  function(class) return class(2, 3):fill(1) end,
  function(class) return class(3, 3):fill(2) end,
  function(class) return class(1, 3):expand(2, 3) end,
  function(class) return class(2, 3, 2):fill(1) end,
  function(class) return class(3, 2):t() end,
  function(class) return class(2, 3, 3, 3):fill(1) end,
}

local function tensor() return SHAPES[draw(#SHAPES)](torch[ELEMENTS[draw(#ELEMENTS)] .. "Tensor"]) end

local NUMBERS = { 0, 1, 2, 3, -1, 1.5, 0 / 0, 1 / 0, -7, 100, 2 ^ 31, 2 ^ 53, -2 ^ 63 }
local TEXTS = { "V", "F", "a", "L", "torch.FloatTensor" }
local FUNCTIONS = { function(v) return v end, function() error "no" end, function() return {} end }

local VALUES = {
  tensor, tensor, tensor,
  function() return NUMBERS[draw(#NUMBERS)] end,
  function() return NUMBERS[draw(#NUMBERS)] end,
  function() return torch[ELEMENTS[draw(#ELEMENTS)] .. "Storage"] { 1, 2, 3 } end,
  function() return TEXTS[draw(#TEXTS)] end,
  function() return draw(2) == 1 end,
  function() return { tensor(), tensor() } end,
  function() return FUNCTIONS[draw(#FUNCTIONS)] end,
}

-- An object of the class whose method it is, most times.
local function object_for(name)
  local element, kind = name:match "^(%a+)(Tensor)%."
  if not element then element, kind = name:match "^(%a+)(Storage)%." end
  if not element or draw(4) == 1 then return nil end
  return kind == "Tensor" and SHAPES[draw(#SHAPES)](torch[element .. kind])
    or torch[element .. kind] { 1, 2, 3 }
end

local all, ended, wrong = functions(), 0, {}
for _ = 1, COUNT do
  local f = all[draw(#all)]
  local arguments, count = {}, draw(0, 5)
  for i = 1, count do arguments[i] = VALUES[draw(#VALUES)]() end
  local object = object_for(f.name)
  if object ~= nil then arguments[1], count = object, math.max(count, 1) end
  local ok, problem = pcall(f.call, table.unpack(arguments, 1, count))
  if ok then ended = ended + 1 end
  if not ok and type(problem) ~= "string" then wrong[#wrong + 1] = f.name end
end
print(("%d calls, %d of them right"):format(COUNT, ended))
assert(#wrong == 0, table.concat(wrong, "\n"))
assert(ended > COUNT // 20, "nearly all calls are errors")
