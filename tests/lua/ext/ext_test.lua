-- tests/lua/ext/ext_test.lua: extensions: compiled from scripts, found again, loaded; and all that
-- may go wrong with that. Each script runs in a process of its own, with a cache for these tests.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local ml = require "moonlet"
local workshop = require "ext.workshop"
local test, expect = harness.test, harness.expect
local run, prints, write, kept = workshop.run, workshop.prints, workshop.write, workshop.kept
local compiled = workshop.compiled

-- `text` as it stands in a script.
local function quoted(text) return "[==[\n" .. text .. "]==]" end

local function inline(name, cpp, functions, more)
  return ("ml.ext.load_inline { name = %q, functions = %s, cpp = %s%s }"):format(name, functions,
    quoted(cpp), more or "")
end

-- --- what scripts get --------------------------------------------------------------------------

test("functions of the script's C++ take and give values by their types", function()
  workshop.compiler()
  prints("local m = " .. inline("values", [[
#include <map>
#include <moonlet/ops.h>
using moonlet::Tensor;
double area(double r, std::optional<double> pi) { return pi.value_or(3) * r * r; }
std::string twice(const std::string& text) { return text + text; }
int64_t total(const std::vector<int64_t>& all) { int64_t sum = 0; for (auto x : all) sum += x; return sum; }
std::tuple<int, bool> both(bool on) { return {on ? 1 : 0, !on}; }
std::map<std::string, double> named(double x) { return {{"x", x}}; }
Tensor shift(const Tensor& x, double by) { return x + by; }
]], '{ "area", "twice", "total", "both", "named", "shift" }') .. [[

print(m.area(2), m.area(2, 0.5), m.twice "ab", m.total { 1, 2, 39 }, m.named(7).x, m.both(true))
local x = ml.tensor({ 1.0, 2.0 }, { requires_grad = true })
m.shift(x, 0.5):sum():backward()
print(m.shift(x, 0.5):tolist()[2], x.grad:tolist()[1])
print(select(2, pcall(m.area, "x")))
print(select(2, pcall(m.total, { 1, "x" })))
]], table.concat({ "12.0\t2.0\tabab\t42\t7.0\t1\tfalse", "2.5\t1.0",
    "script1.lua:17: values.area: argument 1: expected number, got string 'x'",
    "script1.lua:18: values.total: argument 1: item 2: expected int64, got string 'x'" }, "\n"))
end)

test("functions have texts of help; blocks of one's own have all of an extension", function()
  workshop.compiler()
  local text = run("local m = " .. inline("texts", "namespace a { int one() { return 1; } }",
    '{ ["a::one"] = "Gives one." }') .. " print(m.one(), ml.help.text(m.one))")
  expect.truthy(text:find "^1\ta::one" and text:find "Gives one%.", text)
  prints("local m = " .. inline("own", [[
struct Counter { explicit Counter(int from) : n(from) {} int next() { return ++n; } int n; };
MOONLET_EXTENSION(own, module) {
  module.set("version", 3);
  module.bind<Counter>("Counter").constructor<int>().method("next", &Counter::next);
}
]], "{}") .. [[

local c = m.Counter(5)
print(m.version, c:next(), c:next())]], "3\t6\t7")
end)

test("arguments that are wrong are told, before anything is compiled", function()
  local function refused(code, wanted)
    expect.error(function() assert(load("local ml = ... " .. code))(ml) end, wanted)
  end
  refused('ml.ext.load { name = "a b", sources = "x.cpp" }', "ext%.load: 'name' must be of letters")
  refused('ml.ext.load { name = "a", sources = {} }', "ext%.load: 'sources' is empty")
  refused('ml.ext.load { name = "a", sources = "/none/x.cpp" }', "ext%.load: '/none/x%.cpp': No such")
  refused('ml.ext.load { name = "a" }', "ext%.load: 'sources' is missing")
  refused('ml.ext.load { name = "a", source = "x" }', "unknown option 'source'; did you mean 'sources'")
  refused('ml.ext.load_inline { name = "a", cpp = "", functions = { "f g" } }',
    'load_inline: functions: expected names of C%+%+ functions, got "f g"')
  refused('ml.ext.load_inline { name = "a", cpp = "", functions = { f = 1 } }',
    "expected a text of help for f, got a number")
  refused('ml.ext.load_inline { name = "a", cpp = "MOONLET_EXTENSION(a, m) {}", functions = { "f" } }',
    "exclude each other")
  refused('ml.ext.info {}', "ext%.info: 'module' is none that ml%.ext has loaded")
  refused('ml.ext.load_library "/none.so"', 'ext%.load_library: there is no file "/none.so"')
end)

-- --- the cache ---------------------------------------------------------------------------------

test("what was compiled is found again, also by another process", function()
  workshop.compiler()
  local before = compiled()
  local code = "local m = " .. inline("hits", "int two() { return 2; }", '{ "two" }')
    .. " print(m.two(), ml.ext.info(m).built)"
  prints(code, "2\ttrue")
  expect.equal(compiled(), before + 1)
  prints(code, "2\tfalse")
  prints(code .. code:gsub("local m", "local again"):gsub("print.*", "print(again == m)"),
    "2\tfalse\ntrue")
  expect.equal(compiled(), before + 1)
  -- Other flags, and other code.
  prints(code:gsub(" }%s*print", ', flags = "-DMORE" } print', 1), "2\ttrue")
  prints(code:gsub("return 2", "return 3"), "3\ttrue")
  expect.equal(compiled(), before + 3)
end)

local FILE = [[
#include <moonlet/extension.h>
#include "value.h"
MOONLET_EXTENSION(filed, module) { module.set("value", VALUE); }
]]
local LOAD = [[
local m = ml.ext.load { name = "filed", sources = "filed.cpp" }
print(m.value, ml.ext.info(m).built)]]

test("a header that changed has its sources compiled again", function()
  workshop.compiler()
  write("filed.cpp", FILE)
  write("value.h", "#define VALUE 1\n")
  prints(LOAD, "1\ttrue")
  local once = compiled()
  prints(LOAD, "1\tfalse")
  write("value.h", "#define VALUE 2\n")
  prints(LOAD, "2\ttrue")
  expect.equal(compiled(), once + 1)
  -- What was compiled of the same bytes is still there.
  write("value.h", "#define VALUE 1\n")
  prints(LOAD, "1\tfalse")
  -- Only touched.
  assert(os.execute(("touch -d '1 hour ago' '%s'"):format(workshop.path "value.h")))
  prints(LOAD, "1\tfalse")
  write("filed.cpp", FILE .. "// more\n")
  prints(LOAD, "1\ttrue")
  expect.equal(compiled(), once + 2)
end)

test("a folder of one's own, and none", function()
  workshop.compiler()
  local code = "local m = " .. inline("kept", "int two() { return 2; }", '{ "two" }', ", build_directory = 'own'")
    .. " print(m.two(), ml.ext.info(m).built)"
  prints(code, "2\ttrue")
  prints(code, "2\tfalse")
  expect.equal(kept(workshop.path "own"), 1)
  local before = kept()
  code = "local m = " .. inline("loose", "int two() { return 2; }", '{ "two" }')
    .. " print(m.two(), ml.ext.info(m).built)"
  for _ = 1, 2 do prints(code, "2\ttrue", { MOONLET_CACHE = "off", TMPDIR = workshop.folder }) end
  expect.equal(kept(), before)
  expect.equal(workshop.shell(("ls -d '%s'/moonlet-ext-* 2>/dev/null | wc -l"):format(workshop.folder)), "0")
end)

test("no code is taken from a folder that others may write", function()
  workshop.compiler()
  local code = inline("open", "int two() { return 2; }", '{ "two" }', ", build_directory = 'open'")
  prints("print(" .. code .. ".two())", "2")
  assert(os.execute(("chmod 0777 '%s'/open/open-*"):format(workshop.folder)))
  local text = run(code)
  expect.truthy(text:find "no code is kept in the folder .*other users may write to it", text)
end)

-- --- what goes wrong ---------------------------------------------------------------------------

test("an error of the compiler names the script's line, and leaves nothing", function()
  workshop.compiler()
  local before = kept()
  local code = "\n\nlocal m = " .. inline("broken", "int one() { return 1; }\nint two() { return missing; }\n", '{ "two" }')
  local text = run(code, nil, "broken.lua")
  expect.truthy(text:find("ext.load_inline: broken does not compile (broken.cpp):", 1, true), text)
  -- A line for `local ml`, two empty ones, the call's, and the first of the C++.
  expect.truthy(text:find "broken%.lua:6:%d+: error: [^\n]*missing", text)
  write("wrong.cpp", "#include <moonlet/extension.h>\n\nint wrong;\nint wrong() { return 1; }\n")
  text = run 'ml.ext.load { name = "wrong", sources = "wrong.cpp" }'
  expect.truthy(text:find "wrong%.cpp:4:%d+: error: ", text)
  local now, builds = kept()
  expect.equal({ now, builds }, { before, 0 })
  -- Text that stands in the script twice, or not as it is, is named after the extension.
  text = run([[ml.ext.load_inline { name = "built", cpp = "int f() " .. "{ return g; }" }]])
  expect.truthy(text:find "built%.cpp:1:%d+: error: ", text)
  text = run([[ml.ext.load_inline { name = "parts", cpp = { "int f();" .. "", "int h() " .. "{ return g; }" } }]])
  expect.truthy(text:find "parts%[2%]%.cpp:1:%d+: error: ", text)
  -- Mended, it is compiled.
  prints("print(" .. inline("broken", "int two() { return 2; }", '{ "two" }') .. ".two())", "2")
end)

test("no compiler, and one that is no program, are told by name", function()
  local code = inline("none", "int two() { return 2; }", '{ "two" }')
  local text = run(code, { PATH = "/nowhere", CXX = "" })
  expect.truthy(text:find("ext.load_inline: there is no C++ compiler: looked for c++, g++ and clang++", 1, true), text)
  text = run(code, { CXX = "/nowhere/g++ -pipe" })
  expect.truthy(text:find("CXX says '/nowhere/g++ -pipe', which is no program", 1, true), text)
end)

-- Waits for what a shell says to be true, a minute at most.
local function wait_for(command)
  return os.execute(
    ("i=0; while ! { %s; }; do i=$((i + 1)); [ $i -lt 6000 ] || exit 1; sleep 0.01; done")
    :format(command)) == true
end

test("a build that is cut off leaves nothing that is taken for a library", function()
  workshop.compiler()
  local code = "print(" .. inline("cut", "int two() { return 2; }", '{ "two" }',
    ", build_directory = 'cut'") .. ".two())"
  write("before", "sleep 30\n")
  local before = compiled()
  local pid = workshop.start(code)
  expect.truthy(wait_for(("[ $(wc -l <'%s') -gt %d ]"):format(workshop.path "log", before)))
  os.execute("kill -9 " .. pid)
  write("before", "")
  expect.equal({ kept(workshop.path "cut") }, { 0, 1 })
  prints(code, "2")
  expect.equal({ kept(workshop.path "cut") }, { 1, 0 })
end)

test("Ctrl-C ends the compiler with all that it has started", function()
  workshop.compiler()
  write("before", "sleep 33 & echo $! >sleeping; wait\n")
  local pid = workshop.start("local _, message = pcall(function() "
    .. inline("stopped", "int two() { return 2; }", '{ "two" }', ", build_directory = 'stopped'")
    .. " end)\nlocal f = io.open('stopped.txt', 'w') f:write(message) f:close()")
  expect.truthy(wait_for(("test -s '%s/sleeping'"):format(workshop.folder)))
  os.execute("kill -INT " .. pid)
  expect.truthy(wait_for(("test -s '%s/stopped.txt'"):format(workshop.folder)))
  write("before", "")
  expect.truthy(workshop.read(workshop.path "stopped.txt"):find "interrupted!")
  local sleeping = workshop.read(workshop.path "sleeping"):match "%d+"
  expect.truthy(wait_for("! kill -0 " .. sleeping .. " 2>/dev/null"))
  expect.equal({ kept(workshop.path "stopped") }, { 0, 0 })
end)

test("of processes that want the same at once, one compiles it", function()
  workshop.compiler()
  write("before", "sleep 0.3\n")
  local before = compiled()
  expect.equal(workshop.run_together(3, "local m = "
    .. inline("together", "int two() { return 2; }", '{ "two" }') .. " print(m.two())"), "2\n2\n2")
  write("before", "")
  expect.equal(compiled(), before + 1)
end)

-- --- libraries ---------------------------------------------------------------------------------

-- The path of a library that is made ahead of time.
local function made(name, cpp)
  write(name .. ".cpp", cpp)
  local path = run(([[print(ml.ext.info(ml.ext.load { name = %q, sources = "%s.cpp" }).path)]]):format(name, name))
  expect.truthy(path:find "%.so$", path)
  return path
end

test("libraries made ahead of time are loaded, and others refused by name", function()
  workshop.compiler()
  local path = made("ahead", '#include <moonlet/extension.h>\nMOONLET_EXTENSION(ahead, m) { m.set("x", 4); }\n')
  assert(os.execute(("cp '%s' '%s/ahead.so'"):format(path, workshop.folder)))
  prints([[
local m = ml.ext.load_library "ahead.so"
print(m.x, ml.ext.load_library "./ahead.so" == m, ml.ext.info(m).name)]], "4\ttrue\tahead")
  local bytes = workshop.read(path)
  local at, last = bytes:find "moonlet%-extension%-abi: [^\0]* headers %x+"
  write("other.so", bytes:sub(1, last - 4) .. "beef" .. bytes:sub(last + 1))
  expect.truthy(at)
  local text = run 'ml.ext.load_library "other.so"'
  expect.truthy(text:find("load_library: .*/other%.so was compiled against other headers %(.*beef.*compile it again"), text)
  write("none.so", "this is no library")
  text = run 'ml.ext.load_library "none.so"'
  expect.truthy(text:find "none%.so is no extension of Moonlet", text)
  write("half.so", bytes:sub(1, last + 2000))
  text = run 'ml.ext.load_library "half.so"'
  expect.truthy(text:find "half%.so is cut short: it cannot be opened", text)
  local mark = bytes:match "moonlet%-extension%-abi: [^\0]*"
  write("text.so", mark .. "\0" .. ("x"):rep(100))
  text = run 'ml.ext.load_library "text.so"'
  expect.truthy(text:find "text%.so is no library", text)
end)

test("a function that is missing is named as C++ has it", function()
  workshop.compiler()
  write("lacking.cpp", [[
#include <moonlet/extension.h>
namespace moonlet { int not_there(double); }
MOONLET_EXTENSION(lacking, m) { m.set("x", moonlet::not_there(1)); }
]])
  local text = run 'ml.ext.load { name = "lacking", sources = "lacking.cpp" }'
  expect.truthy(text:find "ext%.load: cannot open [^\n]*/lacking%-%x+%.so: undefined symbol:", text)
  expect.truthy(text:find("undefined symbol: moonlet::not_there(double)", 1, true), text)
end)

test("each interpreter of a process gets the functions", function()
  workshop.compiler()
  made("threads", '#include <moonlet/extension.h>\nstatic int two() { return 2; }\n'
    .. 'MOONLET_EXTENSION(threads, m) { m.function("two", &two); }\n')
  prints([[
local m = ml.ext.load { name = "threads", sources = "threads.cpp" }
local Set = ml.class("Set", ml.data.Dataset)
function Set:__len() return 4 end
function Set:get(i)
  local ml = require "moonlet"
  return ml.tensor(i * ml.ext.load { name = "threads", sources = "threads.cpp" }.two())
end
local sum = m.two()
for batch in ml.data.DataLoader(Set(), { num_workers = 2 }):iter() do sum = sum + batch:sum():item() end
print(sum)]], "22")
end)

-- --- CUDA --------------------------------------------------------------------------------------

local CUDA_CODE = [[
local m = ml.ext.load_inline { name = "cuda_sum", functions = { "launch" },
  cpp = "std::string launch();",
  cuda = [=[
#include <cuda_runtime.h>
#include <string>
__global__ void fill(float* out, float value) { out[threadIdx.x] = value; }
std::string launch() {
  fill<<<1, 32>>>(nullptr, 1.0f);
  return cudaGetErrorName(cudaGetLastError());
}
]=] }
print(type(m.launch()))]]

local function has_nvcc()
  return workshop.is_there "nvcc" or workshop.is_there "/usr/local/cuda/bin/nvcc"
end

test("sources for CUDA are compiled by nvcc", function()
  workshop.compiler()
  if not has_nvcc() then harness.skip "there is no nvcc" end
  prints(CUDA_CODE, "string")
  local text = run((CUDA_CODE:gsub("value; }", "missing; }")), nil, "wrong_cuda.lua")
  expect.truthy(text:find "cuda_sum does not compile %(cuda_sum%.cu%)", text)
  expect.truthy(text:find "wrong_cuda%.lua%(7%): error: [^\n]*missing", text)
end)

-- --- the program to start from -------------------------------------------------------------------

local source = os.getenv "MOONLET_SOURCE" or workshop.shell "pwd"

test("the cell of scripts/extension_lltm computes what its twin in Lua does", function()
  workshop.compiler()
  local text = run(([[
arg = { [0] = "%s/scripts/extension_lltm/lltm.lua", "--steps", "2", "--rounds", "2" }
dofile(arg[0])]]):format(source))
  local difference = tonumber(text:match "the two differ by (%S+) at most")
  expect.truthy(difference and difference < 1e-4, text)
  expect.truthy(text:find "right at the end: %d+ %%$", text)
end)

test("its loops for CUDA compile, beside those for the CPU", function()
  workshop.compiler()
  if not has_nvcc() then harness.skip "there is no nvcc" end
  prints(([[
local here = "%s/scripts/extension_lltm/"
local m = ml.ext.load { name = "lltm", sources = { here .. "lltm.cpp", here .. "lltm.cu" },
  flags = "-DLLTM_CUDA" }
local h, cell = m.step(ml.ones(1, 2), ml.ones(3, 3), ml.zeros(3), ml.zeros(1, 1), ml.zeros(1, 1))
print(("%%.4f %%.4f"):format(h:item(), cell:item()))]]):format(source), "0.8303 1.7616")
end)

test("without nvcc sources for CUDA are refused by name", function()
  workshop.compiler()
  local text = run(CUDA_CODE, { CUDACXX = "/nowhere/nvcc" })
  expect.truthy(text:find "there is no CUDA compiler: CUDACXX says '/nowhere/nvcc'", text)
end)

harness.run()
