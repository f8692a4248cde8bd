-- interp/gen/run_examples.lua: runs the examples of one text, in the executable: the values of names
-- last from one to the next, and end with the text.
--
-- A comment at the end of an example tells what its result depends on: `-- varies` is not compared,
-- `-- needs cuda`, `-- needs kernels`, `-- needs onnx`, `-- needs distributed` and
-- `-- needs compiler` run only where there is a device, what compiles kernels for it, the plugin, or a
-- compiler of C++; `-- needs library` is for what a reader has to have.

local ml = require "moonlet"
local show = require "moonlet.repl.show"

local run_examples = {}

local needs = {
  cuda = function() return ml.cuda.is_available() end,
  kernels = function()
    local source = 'extern "C" __global__ void probe(int* x) { x[0] = 1; }'
    return ml.cuda.is_available() and (pcall(function() ml.cuda.kernel(source, "probe"):compile() end))
  end,
  distributed = function() return not require("moonlet.distributed_engine").unavailable() end,
  onnx = function() return not require("moonlet.onnx_codec").unavailable() end,
  compiler = function()
    return pcall(require("moonlet.ext.compiler").find_cxx, "example")
  end,
  library = function() return false end,
}

--- Whether the example can run here.
---@param code string
---@return boolean
function run_examples.runs_here(code)
  local need = code:match "%-%- needs (%a+)"
  return need == nil or needs[need]()
end

--- Whether the result of an example is another at each run.
---@param code string
---@return boolean
function run_examples.varies(code) return code:find "%-%- varies" ~= nil end

-- The code with its last statement, where that is an expression, behind a "return".
local function returning(code)
  if load("return " .. code, "=example", "t") then return "return " .. code end
  for at = #code, 1, -1 do
    if code:find("^[;\n]", at) then
      local before, last = code:sub(1, at), code:sub(at + 1)
      if last:find "%S" and load(before, "=example", "t") and load("return " .. last, "=example", "t") then
        return before .. "return " .. last
      end
    end
  end
  return code
end

local function trimmed(text)
  return (text:gsub("[ \t]+\n", "\n"):gsub("%s+$", ""))
end

-- Whether two texts are the same but for the last digits of fractions, which may depend on the
-- machine's vectors.
local function alike(a, b)
  local TOLERANCE = 2e-4
  if a == b then return true end
  local NUMBER = "%-?%d+%.%d*e?[+-]?%d*"
  local function skeleton(text) return (text:gsub(NUMBER, "#"):gsub("%s+", " ")) end
  if skeleton(a) ~= skeleton(b) then return false end
  local next_number = b:gmatch(NUMBER)
  for text in a:gmatch(NUMBER) do
    local left, right = tonumber(text), tonumber(next_number())
    if not (left and right) or math.abs(left - right) > TOLERANCE * math.max(1, math.abs(left)) then
      return false
    end
  end
  return true
end

-- What one example prints: its own lines, and its value.
local function run_one(code, env)
  local lines = {}
  env.print = function(...)
    local parts = table.pack(...)
    for i = 1, parts.n do parts[i] = tostring(parts[i]) end
    lines[#lines + 1] = table.concat(parts, "\t")
  end
  -- Locals last at the prompt; what is to be closed ends here.
  if not code:find "^local%s[^=]*<" then code = code:gsub("^local%s+", "") end
  local chunk, problem = load(returning(code), "=example", "t", env)
  if not chunk then return nil, problem end
  local results = table.pack(pcall(chunk))
  if not results[1] then return nil, tostring(results[2]) end
  if results.n > 1 then lines[#lines + 1] = show(table.unpack(results, 2, results.n)) end
  return trimmed(table.concat(lines, "\n"))
end

-- An `os` whose temporary files are in a folder of their own, and a function that removes it.
local function own_files()
  local folder, count = nil, 0
  local function tmpname()
    if not folder then
      folder = os.tmpname()
      assert(os.remove(folder))
      assert(os.execute(("mkdir '%s'"):format(folder)))
    end
    count = count + 1
    local path = ("%s/%d"):format(folder, count)
    assert(io.open(path, "wb")):close()
    return path
  end
  local function remove()
    if folder then os.execute(("rm -rf '%s'"):format(folder)) end
  end
  return setmetatable({ tmpname = tmpname }, { __index = os }), remove
end

local function reset()
  ml.manual_seed(0)
  ml.set_default_dtype "float32"
  ml.set_grad_enabled(true)
  ml.set_printoptions { profile = "default" }
end

--- What the examples of a text print: for each a string, or false where it does not run here.
---@param examples table[] { code, gives }
---@return (string|false)[]? printed
---@return string? problem of the first that fails
function run_examples.run(examples)
  reset()
  local files, remove_files = own_files()
  local env, out = setmetatable({ ml = ml, os = files }, { __index = _G }), {}
  for i, example in ipairs(examples) do
    if not run_examples.runs_here(example.code) then
      for j = i, #examples do out[j] = false end  -- those below use what it makes
      break
    end
    local printed, problem = run_one(example.code, env)
    if not printed then
      reset()
      remove_files()
      return nil, ("%s: %s"):format(example.code, problem)
    end
    out[i] = printed
  end
  reset()
  remove_files()
  return out
end

--- What is wrong with the examples of a text; nil where each prints the result that is given.
---@param examples table[]
---@return string?
function run_examples.check(examples)
  local printed, problem = run_examples.run(examples)
  if not printed then return problem end
  for i, example in ipairs(examples) do
    local compared = printed[i] and not run_examples.varies(example.code)
    if compared and not alike(trimmed(example.gives or ""), printed[i]) then
      return ("%s\nprints\n%s\nnot\n%s"):format(example.code, printed[i], example.gives or "nothing")
    end
  end
end

return run_examples
