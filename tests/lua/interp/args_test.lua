-- tests/lua/interp/args_test.lua: option types, forms of writing them, usage text and error messages.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local test, expect = harness.test, harness.expect
local args = require "moonlet.args"

local function parser()
  return args.parser {
    name = "train",
    summary = "Trains a classifier.",
    { "epochs", "integer", short = "e", default = 12, min = 1, max = 1000, help = "passes" },
    { "lr", "number", default = 1e-3, min = 0, help = "learning rate" },
    { "batch-size", "integer", default = 32, help = "images per step" },
    { "device", default = "cpu", help = "cpu or cuda:N" },
    { "mode", "choice", choices = { "fast", "exact" }, default = "fast" },
    { "sizes", "list", of = "integer", min = 1, help = "hidden sizes" },
    { "verbose", "flag", short = "v" },
    { "plot", "boolean", default = true, short = "p" },
    { "input", positional = true, default = "digits.csv", help = "the data" },
    { "more", positional = true, many = true },
  }
end

local function parse(...)
  return parser():try_parse { ... }
end

local function message_of(...)
  local values, message = parse(...)
  expect.equal(values, nil)
  return message
end

test("defaults", function()
  expect.equal(parse(), { epochs = 12, lr = 1e-3, batch_size = 32, device = "cpu", mode = "fast",
    verbose = false, plot = true, input = "digits.csv", more = {} })
end)

test("every way to write a value", function()
  local values = parse("--epochs", "3", "--lr=0.5", "--batch-size", "1e2", "--sizes", "3, 4",
    "--sizes=5", "-v", "--no-plot", "--mode=exact", "a.csv", "b", "c")
  expect.equal(values, { epochs = 3, lr = 0.5, batch_size = 100, device = "cpu", mode = "exact",
    sizes = { 3, 4, 5 }, verbose = true, plot = false, input = "a.csv", more = { "b", "c" } })
  expect.equal(parse("-e5").epochs, 5)
  expect.equal(parse("-e", "5").epochs, 5)
  expect.equal(parse("-ve=5").epochs, 5)
  expect.equal(parse("--plot=false").plot, false)
  expect.equal(parse("--device=").device, "")
end)

test("after -- everything is positional", function()
  local values = parse("--", "--epochs", "-v")
  expect.equal(values.input, "--epochs")
  expect.equal(values.more, { "-v" })
  expect.equal(parse("-").input, "-")
  expect.equal(parse("-5").input, "-5")
end)

test("errors name the option and what came", function()
  expect.equal(message_of("--epoch", "3"), "unknown option '--epoch'; did you mean '--epochs'?")
  expect.equal(message_of("--bach-size=3"),
    "unknown option '--bach-size'; did you mean '--batch-size'?")
  expect.equal(message_of("--zzzzzz"), "unknown option '--zzzzzz'")
  expect.equal(message_of("-x"), "unknown option '-x'")
  expect.equal(message_of("--no-epochs"), "unknown option '--no-epochs'; did you mean '--epochs'?")
  expect.equal(message_of("--epochs", "0"), "--epochs: expected at least 1, got 0")
  expect.equal(message_of("-e", "2000"), "-e: expected at most 1000, got 2000")
  expect.equal(message_of("--epochs", "1.5"), "--epochs: expected an integer, got '1.5'")
  expect.equal(message_of("--lr", "nan"), "--lr: expected a number, got 'nan'")
  expect.equal(message_of("--lr", "1e999"), "--lr: expected a number, got '1e999'")
  expect.equal(message_of("--lr"), "--lr: wants a value")
  expect.equal(message_of("--lr", "--verbose"), "--lr: wants a value")
  expect.equal(message_of("--mode", "slow"), "--mode: expected one of fast, exact, got 'slow'")
  expect.equal(message_of("--no-plot=1"), "--no-plot: takes no value, got '1'")
  expect.equal(message_of("--sizes", "3,x"), "--sizes: expected an integer, got 'x'")
  expect.equal(message_of("--input=x"), "unknown option '--input'")
end)

test("required options and arguments", function()
  local p = args.parser { name = "t", { "out", required = true }, { "file", positional = true } }
  local _, message = p:try_parse { "a" }
  expect.equal(message, "missing option '--out'")
  _, message = p:try_parse { "--out=x" }
  expect.equal(message, "missing argument <file>")
  _, message = p:try_parse { "--out=x", "a", "b" }
  expect.equal(message, "unexpected argument 'b'")
end)

test("usage", function()
  local _, message = parse("--help")
  expect.equal(message, "help")
  local usage = parser():usage()
  expect.truthy(usage:find("Usage: train [options] [<input>] [<more>...]", 1, true))
  expect.truthy(usage:find("  %-e, %-%-epochs <integer> +passes %(1 to 1000, default: 12%)"))
  expect.truthy(usage:find("-p, --[no-]plot", 1, true))
  for line in usage:gmatch("[^\n]*") do expect.truthy(#line <= 80) end
end)

test("--help and errors end the process", function()
  if not arg[-1] then harness.skip("the interpreter's path is not in arg[-1]") end
  harness.with_temp_file(function(path)
    local script <close> = assert(io.open(path, "w"))
    script:write(("package.path = %q\n"):format(package.path), [[
      require "harness"
      local options = require("moonlet.args").parse { name = "train", { "lr", "number" } }
      print("lr is", options.lr)
    ]])
    script:close()
    local function run(arguments)
      local command = ("'%s' '%s' %s 2>&1"):format(arg[-1], path, arguments)
      local process = assert(io.popen(command))
      local output = process:read("a")
      local _, _, status = process:close()
      return { status, output }
    end
    expect.equal(run("--lr 2"), { 0, "lr is\t2\n" })
    expect.equal(run("--l 2"), { 2, "train: unknown option '--l'; did you mean '--lr'?\n"
      .. "Try 'train --help'.\n" })
    local help = run("--help")
    expect.equal(help[1], 0)
    expect.truthy(help[2]:find("^Usage: train %[options%]\n"))
  end)
end)

test("wrong declarations are errors", function()
  expect.error(function() args.parser { { "a", "thing" } } end, "option a: unknown type thing")
  expect.error(function() args.parser { { "a", hlep = "" } } end, "option a: unknown option 'hlep'; did you mean 'help'")
  expect.error(function() args.parser { { "a", min = "3" } } end, "option a: 'min' must be a number, got \"3\"")
  expect.error(function() args.parser { { "a", "integer", 3 } } end,
    "option a: a name and a type are expected, got 3 values")
  expect.error(function() args.parser { { "a", "list", of = "itneger" } } end, "option a: unknown type itneger of items")
  expect.error(function() args.parser { sumary = "" } end, "args: unknown option 'sumary'; did you mean 'summary'")
  expect.error(function() args.parser { { "a" }, { "a" } } end, "a is declared twice")
  expect.error(function() args.parser { { "a", "choice" } } end, "wants a table `choices`")
  expect.error(function() args.parser { { 3 } } end, "expected an option name")
end)

harness.run()
