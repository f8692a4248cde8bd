-- tests/docs/docs_test.lua: runs the samples of README.md and of docs/: guide.md, programs.md, ops.md,
-- distributed.md, porting.md, embedding.md and its pages: Lua, the REPL session and the C++ programs.
-- MOONLET_SOURCE and MOONLET_BUILD name the source and build folders.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../lua/?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local test, expect = harness.test, harness.expect

local source = os.getenv "MOONLET_SOURCE" or (arg[0]:match "^(.*)/" or ".") .. "/../.."
local build = os.getenv "MOONLET_BUILD" or source .. "/build"
local program = build .. "/moonlet"

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

-- The code blocks of one language, in order, with the line each starts on.
local function blocks(text, language)
  local out, current, number = {}, nil, 0
  for line in (text .. "\n"):gmatch "(.-)\r?\n" do
    number = number + 1
    local fence = line:match "^```(%w*)$"
    if fence and current then
      current = nil
    elseif fence then
      current = { line = number + 1, lines = {} }
      if fence == language then out[#out + 1] = current end
    elseif current then
      table.insert(current.lines, line)
    end
  end
  for _, block in ipairs(out) do block.text = table.concat(block.lines, "\n") end
  return out
end

-- Runs a block in `env`; what `print` says on lines marked `-->` must be what the mark says.
local function run_lua(block, name, env)
  local printed = {}
  env.print = function(...)
    local line = debug.getinfo(2, "l").currentline
    local parts = table.pack(...)
    for i = 1, parts.n do parts[i] = tostring(parts[i]) end
    printed[line] = table.concat(parts, "\t")
  end
  local padded = ("\n"):rep(block.line - 1) .. block.text
  assert(load(padded, "@" .. name, "t", env))()
  local wrong = {}
  for i, line in ipairs(block.lines) do
    local wanted = line:match "%-%->%s?(.*)$"
    local got = printed[block.line + i - 1]
    if wanted and got ~= wanted then
      wrong[#wrong + 1] = ("%s:%d: got %q, expected %q"):format(name, block.line + i - 1,
        tostring(got), wanted)
    end
  end
  if #wrong > 0 then error(table.concat(wrong, "\n"), 0) end
  return printed
end

-- Kernels of scripts need NVRTC beside a device.
local function compiles_kernels()
  local probe = 'extern "C" __global__ void probe(int* x) { x[0] = 1; }'
  return (pcall(function() ml.cuda.kernel(probe, "probe"):compile() end))
end

-- With `mark` only those samples that have this text, which are whole by themselves.
local function run_samples(name, least, mark)
  local env = setmetatable({}, { __index = _G })
  local found = {}
  for _, block in ipairs(blocks(read(source .. "/docs/" .. name), "lua")) do
    if not mark or block.text:find(mark, 1, true) then found[#found + 1] = block end
  end
  expect.truthy(#found >= least)
  local failures = {}
  for _, block in ipairs(found) do
    if block.text:find('device = "cuda"', 1, true) and not ml.cuda.is_available() then
      print(("SKIP %s:%d: %s"):format(name, block.line, ml.cuda.unavailable_reason()))
    elseif block.text:find("ml.cuda.%w*_?kernel") and not compiles_kernels() then
      print(("SKIP %s:%d: nothing compiles kernels here"):format(name, block.line))
    else
      local ok, message = pcall(run_lua, block, name, env)
      if not ok then failures[#failures + 1] = message end
    end
  end
  if #failures > 0 then error(table.concat(failures, "\n"), 0) end
end

test("the guide's samples print what they say", function() run_samples("guide.md", 8) end)

test("the samples about programs print what they say", function() run_samples("programs.md", 4) end)

test("the samples about ops of one's own print what they say", function() run_samples("ops.md", 3) end)

test("the samples about several processes print what they say, with one rank", function()
  run_samples("distributed.md", 4, "destroy_process_group")
end)

test("the porting page's samples print what they say", function() run_samples("porting.md", 28) end)

test("the names that the porting page gives exist", function()
  local index = require "moonlet.help.index"
  local count = 0
  for line in read(source .. "/docs/porting.md"):gmatch "\n(| [^\n]*)" do
    local right = line:match "|[^|]*|(.*)|$"
    for code in (right or ""):gmatch "`([^`]*)`" do
      for name in code:gmatch "[%a]+[.:][%w_.]+" do
        local plain = name:gsub("^optim%.", "ml.optim."):gsub("^data%.", "ml.data.")
          :gsub("^loss:", "x:"):gsub("^opt:", "optim.Optimizer."):gsub("^a:", "x:")
        if plain:find "^[xmn][l:.]" or plain:find "^net:" or plain:find "^optim" then
          count = count + 1
          expect.truthy(index.find(plain), ("%s in %s"):format(name, line))
        end
      end
    end
  end
  expect.truthy(count >= 80, count)
end)

test("the README's training script learns", function()
  local found = blocks(read(source .. "/README.md"), "lua")
  expect.equal(#found, 1)
  expect.truthy(#found[1].lines <= 20)
  local printed = run_lua(found[1], "README.md", setmetatable({}, { __index = _G }))
  local best = 0
  for _, text in pairs(printed) do
    best = math.max(best, tonumber(text:match "^(%d+) %% right") or 0)
  end
  expect.truthy(best >= 90, best .. " % right")
end)

test("the README's REPL session", function()
  local session = blocks(read(source .. "/README.md"), "repl")[1]
  local input, wanted = {}, {}
  for _, line in ipairs(session.lines) do
    local typed = line:match "^> (.*)$"
    table.insert(typed and input or wanted, typed or line)
  end
  local path, errors = os.tmpname(), os.tmpname()
  write(path, table.concat(input, "\n") .. "\n")
  local pipe = assert(io.popen(("'%s' -i <'%s' 2>'%s'"):format(program, path, errors)))
  local text = pipe:read "a" .. read(errors)
  pipe:close()
  os.remove(path)
  os.remove(errors)
  for _, line in ipairs(wanted) do
    expect.truthy(text:find(line, 1, true), ("%q in %s"):format(line, text))
  end
end)

local function run(command)
  local pipe = assert(io.popen("{ " .. command .. "; } 2>&1"))
  local text = pipe:read "a"
  return pipe:close() == true, text
end

-- Builds and runs a C++ program with the headers as they are installed; returns what it prints. So of
-- another language, with its compiler and the end of its files' names.
local function run_cpp(text, libraries, compiler, suffix)
  suffix = suffix or ".cpp"
  local work = os.tmpname()
  os.remove(work)
  local sanitize = os.getenv "MOONLET_SANITIZE" or "none"
  write(work .. suffix, text)
  local package = build .. "/interp/package"
  local ok, output = run(table.concat({
    ("'%s' '%s/interp/package/public_headers.lua' '%s' '%s' '%s'"):format(program, source, source,
      build, work),
    ("%s %s '%s%s' -I'%s' -o '%s/host' -L'%s' %s"):format(compiler or "${CXX:-c++} -std=c++20",
      sanitize ~= "none" and "-fsanitize=" .. sanitize or "", work, suffix, work, work, package,
      libraries),
    ("LD_LIBRARY_PATH='%s' '%s/host'"):format(package, work),
  }, " && "))
  run(("rm -rf '%s' '%s%s'"):format(work, work, suffix))
  expect.truthy(ok, output)
  return output
end

test("the README's C++ program", function()
  local block = blocks(read(source .. "/README.md"), "cpp")[1]
  expect.equal(run_cpp(block.text, "-lmoonlet"),
    "sum 100\nthe host's own buffer: 40\nbad.lua:1: no luck\n")
end)

local function embedding(page) return blocks(read(source .. "/docs/" .. page), "cpp") end
local cxx_lua = run "pkg-config --exists lua5.4-c++"
  and "-lmoonlet-lua -lmoonlet $(pkg-config --cflags --libs lua5.4-c++)"

-- Runs the programs of a page, each of which must print its text.
local function run_page(page, libraries, ...)
  local found = embedding(page)
  expect.equal(#found, select("#", ...), page)
  for i, wanted in ipairs { ... } do expect.equal(run_cpp(found[i].text, libraries), wanted, page) end
end

test("the C++ programs of docs/embedding.md and of its pages", function()
  run_page("embedding.md", "-lmoonlet", "rate = 0.5\nthe same file\n")
  run_page("embedding/programs.md", "-lmoonlet", "")
  if cxx_lua then run_page("embedding/own_states.md", cxx_lua, "30.0\n") end
  local tensors = embedding "embedding/tensors.md"
  expect.equal(#tensors, 4)
  expect.equal(run_cpp(tensors[1].text, "-lmoonlet"), "3\n1\n")
  expect.equal(run_cpp(tensors[2].text, "-lmoonlet"), "3.000\n")
  expect.equal(run_cpp(tensors[3].text, "-lmoonlet"), "2 72\n182\n")
  local counted = run_cpp(tensors[4].text, "-lmoonlet")
  expect.truthy(counted == "1024\n" or counted:find "there is no CUDA device", counted)
end)

-- Debian has neither layer: CPATH can say where they are.
for i, layer in ipairs {
  { "sol/sol.hpp", "20 3\n[string \"return require 'moonlet'.ones(2) + 'text'\"]:1: add: argument 'other' must be "
    .. "a tensor or a number, got string text\nstack traceback:\n\t[C]: in function 'moonlet.add'\n"
    .. "\t[string \"return require 'moonlet'.ones(2) + 'text'\"]:1: in main chunk\n" },
  { "LuaBridge/LuaBridge.h", "40\n" },
} do
  test("the program with " .. layer[1] .. " of docs/embedding/beside_sol2.md", function()
    local found = embedding "embedding/beside_sol2.md"
    expect.equal(#found, 2)
    if not cxx_lua then harness.skip "there is no Lua built as C++" end
    local header = ("echo '#include <lua.hpp>\n#include <%s>' | ${CXX:-c++} -std=c++20 -M -x c++ %s -")
      :format(layer[1], "$(pkg-config --cflags lua5.4-c++)")
    if not run(header) then harness.skip("the compiler does not find " .. layer[1]) end
    expect.equal(run_cpp(found[i].text, cxx_lua), layer[2])
  end)
end

test("the C program of docs/embedding-c.md", function()
  local found = blocks(read(source .. "/docs/embedding-c.md"), "c")
  expect.equal(#found, 1)
  expect.equal(run_cpp(found[1].text, "-lmoonlet", "${CC:-cc} -std=c99", ".c"),
    "60, and the host's own buffer: 30\nhost.lua:1: no luck\n")
end)

test("the C++ programs of docs/embedding/", function()
  local calls = blocks(read(source .. "/docs/embedding/call.md"), "cpp")
  expect.equal(#calls, 2)
  expect.equal(run_cpp(calls[1].text, "-lmoonlet"),
    "140 70 0.5 440\n77\nsong.lua:1: hertz: argument 1: expected int32, got 69.5\n")
  expect.equal(run_cpp(calls[2].text, "-lmoonlet -pthread"), "who? text of a.txt, by Lua\n")
  local classes = blocks(read(source .. "/docs/embedding/classes.md"), "cpp")
  expect.equal(#classes, 1)
  expect.equal(run_cpp(classes[1].text, "-lmoonlet"), "Synth of 8\t8\t60.0\n1 0.75\n")
  local ops = blocks(read(source .. "/docs/embedding/native_ops.md"), "cpp")
  expect.equal(#ops, 1)
  expect.equal(run_cpp(ops[1].text, "-lmoonlet"), "true\t1.5\n1.4134 0.2432\n8.0\n")
  for page, count in pairs { files = 2, real_time = 1 } do
    local found = blocks(read(("%s/docs/embedding/%s.md"):format(source, page)), "cpp")
    expect.equal(#found, count)
    for _, block in ipairs(found) do expect.equal(run_cpp(block.text, "-lmoonlet"), "") end
  end
end)

test("the samples of docs/embedding/extensions.md", function()
  if not run "command -v c++ >/dev/null" then harness.skip "there is no C++ compiler" end
  local page = read(source .. "/docs/embedding/extensions.md")
  local scripts, sources = blocks(page, "lua"), blocks(page, "cpp")
  expect.equal({ #scripts, #sources }, { 1, 1 })
  run_lua(scripts[1], "extensions.md", setmetatable({}, { __index = _G }))
  local path = os.tmpname()
  os.rename(path, path .. ".cpp")
  write(path .. ".cpp", sources[1].text)
  local m = require("moonlet").ext.load { name = "shapes", sources = path .. ".cpp" }
  os.remove(path .. ".cpp")
  expect.equal({ m.area(2), m.pi, m.Counter():next() }, { 12.0, 3, 1 })
end)

test("links between the documents lead somewhere", function()
  local paths = { "README.md", "CONTRIBUTING.md", "docs/guide.md", "docs/porting.md",
    "docs/embedding.md", "docs/embedding-c.md", "docs/embedding/call.md", "docs/embedding/classes.md",
    "docs/embedding/files.md", "docs/embedding/real_time.md", "docs/embedding/tensors.md",
    "docs/embedding/programs.md", "docs/embedding/limits.md", "docs/embedding/threads.md",
    "docs/embedding/own_states.md", "docs/embedding/native_ops.md", "docs/embedding/extensions.md",
    "docs/embedding/beside_sol2.md",
    "docs/programs.md", "docs/ops.md", "docs/shipping.md", "docs/platforms.md", "docs/browser.md",
    "docs/architecture.md", "docs/op-table.md",
    "docs/glossary.md" }
  for page in read(source .. "/docs/architecture.md"):gmatch "%]%((architecture/[^)#]+%.md)%)" do
    paths[#paths + 1] = "docs/" .. page
  end
  expect.truthy(#paths > 15, #paths)
  for _, path in ipairs(paths) do
    local folder = path:match "^(.*/)" or ""
    for target in read(source .. "/" .. path):gmatch "%]%(([^)#%s]+)%)" do
      if not target:find "^https?:" then
        local file = io.open(source .. "/" .. folder .. target)
        expect.truthy(file, path .. " -> " .. target)
        file:close()
      end
    end
  end
end)

harness.run()
