-- tests/lua/torch7/torch7_packages_test.lua: what scripts use of lfs and penlight where their path has neither.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
require "torch"
local lfs = require "moonlet.torch7.lfs"
local pl = require "moonlet.torch7.pl"
local test, expect = harness.test, harness.expect

test("lfs: folders and what is in them", function()
  harness.with_temp_file(function(folder)
    expect.equal(lfs.mkdir(folder), true)
    expect.equal({ lfs.mkdir(folder) }, { nil, "File exists" })
    assert(io.open(folder .. "/a", "w")):close()
    expect.equal({ lfs.attributes(folder, "mode"), lfs.attributes(folder .. "/a").mode },
      { "directory", "file" })
    expect.equal(lfs.attributes(folder .. "/b"), nil)
    local names = {}
    for name in lfs.dir(folder) do names[#names + 1] = name end
    expect.equal(names, { "a" })
    expect.error(function() lfs.dir(folder .. "/b") end, "dir: cannot open")
    expect.error(function() lfs.attributes(folder, "size") end, "only 'mode' is known")
    os.remove(folder .. "/a")
  end)
end)

test("pl.path", function()
  local path = require "pl.path"
  expect.equal(rawequal(path, pl.path) and rawequal(require "pl.lapp", pl.lapp), true)
  expect.equal({ path.join("a", "b"), path.join("a/", "b", "c"), path.join("a", "/b"), path.join("", "b") },
    { "a/b", "a/b/c", "/b", "b" })
  expect.equal({ path.splitext "x/y.tar.gz" }, { "x/y.tar", ".gz" })
  expect.equal({ path.extension "x.d/y", path.extension ".profile", path.basename "x/y.t7" }, { "", "", "y.t7" })
  expect.equal({ path.exists(arg[0]), path.exists "no such file", path.isfile(arg[0]) }, { arg[0], nil, true })
end)

local SPEC = [[
An example.
   -s,--save          (default "logs")      subdirectory to save logs
   -f,--full                                use the full dataset
   -r,--learning-rate (default 0.05)        learning rate
   -n                 (int)                 how many
   --plain            (boolean default true) whether it is plain
   <file>             (string)              what is read
]]

test("lapp reads options", function()
  expect.equal(pl.lapp(SPEC, { "-n", "3", "data.txt" }), { save = "logs", full = false, learning_rate = 0.05, n = 3,
    plain = true, file = "data.txt" })
  expect.equal(pl.lapp(SPEC, { "in", "--full", "-s", "out", "--learning-rate=1e-2", "-n", "1", "--plain" }),
    { save = "out", full = true, learning_rate = 0.01, n = 1, plain = false, file = "in" })
end)

test("lapp reads what may be left out, ranges, streams and all other arguments", function()
  local spec = "  --log (optional file-out)  a file\n  --most (1..10 default 5)  how many\n"
    .. "  --from (default stdin)  what is read\n  <file> (string)  the first one\n"
  expect.equal(pl.lapp(spec, { "a", "b", "--most", "7", "c" }), { "b", "c", most = 7, from = io.stdin, file = "a" })
  local name = os.tmpname()
  local read = pl.lapp.process_options_string(spec, { "--log=" .. name, "--from", name, "x" })
  expect.equal({ io.type(read.log), io.type(read.from), read.most }, { "file", "file", 5 })
  read.log:close()
  read.from:close()
  os.remove(name)
end)

test("lapp refuses what the text does not say", function()
  expect.error(function() pl.lapp(SPEC, { "-n", "3" }) end, "a value of 'file' is expected")
  expect.error(function() pl.lapp(SPEC, { "-n", "x", "a" }) end, "option 'n' expects an integer, got 'x'")
  expect.error(function() pl.lapp(SPEC, { "-n", "1.5", "a" }) end, "option 'n' expects an integer, got '1.5'")
  expect.error(function() pl.lapp(SPEC, { "--what" }) end, "the option '%-%-what' is not known")
  expect.error(function() pl.lapp(SPEC, { "a", "-n" }) end, "the option '%-n' expects a value")
  expect.error(function() pl.lapp("  --x (files) a file", {}) end, "got 'files'")
  expect.error(function() pl.lapp("  --x (file-in) a file", { "--x", "none" }) end, "option 'x': none: No such file")
  expect.error(function() pl.lapp("  --x (0..1 default 0.5) a part", { "--x=2" }) end, "must be from 0 to 1, got '2'")
end)

harness.run()
