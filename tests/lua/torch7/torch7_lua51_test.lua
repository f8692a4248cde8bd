-- tests/lua/torch7/torch7_lua51_test.lua: `moonlet --torch7`: names of Lua 5.1, numbers as it printed them, the
-- packages paths, sys and xlua, and where Lua packages of an installation are found.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local system = require "moonlet.system"
local test, expect = harness.test, harness.expect

-- What a script prints under --torch7, or with other options and environment.
local function printed(script, options, environment)
  local name = os.tmpname()
  local file <close> = assert(io.open(name, "w"))
  file:write(script)
  file:close()
  local pipe = assert(io.popen(("%s '%s' %s %s 2>&1"):format(environment or "", system.executable(),
    options or "--torch7", name)))
  local text = pipe:read "a"
  pipe:close()
  os.remove(name)
  return text
end

test("numbers without a fraction print none", function()
  expect.equal(printed [[
    print(6 / 2, 2 ^ 10, 0.5, -0.0 == 0, 1e20)
    io.write(4 / 2, " ", tostring(8 / 4), "\n")
    print(table.concat({ 2 / 1, "a", 0.5 }, ","))
    print(string.format("%d %s %5.1f %x", 7 / 2, 6 / 2, 3, 255.0))
    print(torch.Tensor { 3 }[1], torch.sum(torch.ones(4)))
  ]], "3\t1024\t0.5\ttrue\t1e+20\n2 2\n2,a,0.5\n3 3   3.0 ff\n3\t4\n")
end)

test("functions of Lua 5.1", function()
  expect.equal(printed [[
    print(unpack { 1, 2 })
    print(loadstring "return 5"())
    print(table.getn { 1, 2, 3 }, table.maxn { [7] = 1 }, math.pow(2, 3), math.log10(1000))
    print((math.frexp(12)), select(2, math.frexp(12)), math.ldexp(0.75, 4), math.mod(7, 3))
    local sum = 0
    table.foreach({ 1, 2, x = 3 }, function(_, v) sum = sum + v end)
    print(sum)
    print(math.random(3.5) <= 3)
    local function f() return name end
    setfenv(f, { name = "set" })
    print(f(), getfenv(f).name, name)
  ]], "1\t2\n5\n3\t7\t8\t3\n0.75\t4\t12\t1\n6\ntrue\nset\tset\tnil\n")
end)

test("packages", function()
  expect.equal(printed [[
    print(paths.basename "/a/b.lua", paths.basename("/a/b.lua", "lua"), paths.dirname "/a/b.lua",
      paths.extname "x.tar.gz", paths.concat("/a", "../b", "c"))
    local folder = os.tmpname() os.remove(folder)
    print(paths.mkdir(folder .. "/in"), paths.dirp(folder), paths.filep(folder))
    io.open(folder .. "/file", "w"):close()
    local names = {}
    for name in paths.files(folder, "^%a") do names[#names + 1] = name end
    table.sort(names)
    print(table.concat(names, " "), paths.iterdirs(folder)(), paths.iterfiles(folder)())
    paths.rmall(folder, "yes")
    print(paths.dirp(folder), paths.filep(arg[0]))
    sys.tic()
    print(sys.toc(true) >= 0, sys.execute "echo hello", #sys.split("a,b", ","))
    print(xlua.formatTime(90), ("a b"):split()[2])
  ]], "b.lua\tb\t/a\tgz\t/b/c\ntrue\ttrue\tfalse\nfile in\tin\tfile\nfalse\ttrue\ntrue\thello\t2\n1m30s\tb\n")
end)

test("packages of an installation", function()
  local folder = os.tmpname()
  os.remove(folder)
  system.make_folder(folder .. "/mine", "test")
  local file <close> = assert(io.open(folder .. "/mine/init.lua", "w"))
  file:write "return torch.class('Mine') and 'loaded'"
  file:close()
  local script = [[print((require "mine"))]]
  expect.equal(printed(script, nil, "TORCH7_PATH=" .. folder), "loaded\n")
  expect.truthy(printed(script):find "module 'mine' not found")
  os.remove(folder .. "/mine/init.lua")
  os.remove(folder .. "/mine")
  os.remove(folder)
end)

test("names of Torch7's interpreter are not there for scripts that require torch", function()
  expect.equal(printed [[
    torch.class "A"
    debug.getregistry().A = nil
    print(torch.getmetatable "A", path.join("a", "b"))
  ]], "nil\ta/b\n")
  expect.equal(printed([[require "torch" print(pcall(debug.getregistry)) print(path, unpack)]], ""),
    "false\tdebug.getregistry: the registry is not for scripts\nnil\tnil\n")
end)

test("plain Moonlet stays as it is", function()
  expect.equal(printed([[print(6 / 2, unpack, rawget(_G, "torch"), package.loaded["moonlet.torch7"])]], ""),
    "3.0\tnil\tnil\tnil\n")
end)

harness.run()
