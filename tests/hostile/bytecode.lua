-- tests/hostile/bytecode.lua: compiled chunks, whole and tampered with, everywhere a chunk is loaded.

local BINARY = "attempt to load a binary chunk"

return {
  { "load of a dumped function", [[ return select(2, load(string.dump(function() return 1 end))) ]], gives =
    "attempt to load a binary chunk (mode is 't'); compiled chunks are loaded under --bytecode only" },
  { "load with mode b", [[ return select(2, load(string.dump(function() return 1 end), "x", "b")) ]],
    gives = "attempt to load a binary chunk (mode is ''); compiled chunks are loaded under --bytecode only" },
  { "load with mode bt", [[ return (load(string.dump(function() return 1 end), "x", "bt")) ]], gives = "nil" },
  { "load of text with mode b", [[ return (load("return 1", "x", "b")) ]], gives = "nil" },
  { "load with a mode that is no text", [[ return load("return 1", "x", {}) ]], fails = "bad argument #3" },
  { "load from a function that gives a dump in pieces", [[
      local bytes, at = string.dump(function() return 1 end), 0
      return (load(function() at = at + 1 local c = bytes:sub(at, at) return c ~= "" and c or nil end)) ]], gives = "nil" },
  { "load from a function that raises", [[ return (select(2, load(function() error "hostile" end))):find "hostile" ~= nil ]],
    gives = "true" },
  { "load from a function that yields", [[
      return coroutine.wrap(function() return select(2, load(coroutine.yield)) end)() ]],
    gives = "attempt to yield across a C-call boundary" },
  { "load from a function that gives numbers", [[ return (load(function() return {} end)) ]], gives = "nil" },
  { "load in an environment", [[ return load("return x", "c", "t", { x = 7 })() ]], gives = "7" },
  { "load of text that begins as a dump does", [[ return (load("\27return 1")) ]], gives = "nil" },
  { "load of nothing", [[ return type(load "") ]], gives = "function" },
  { "loadfile of a dump", [[ return (loadfile(write("x.luac", string.dump(function() return 1 end)))) ]], gives = "nil" },
  { "loadfile of a dump with mode b", [[
      return (loadfile(write("x.luac", string.dump(function() return 1 end)), "b")) ]], gives = "nil" },
  { "loadfile of a dump behind a comment", [[
      return (loadfile(write("x.luac", "# comment\n" .. string.dump(function() return 1 end)))) ]], gives = "nil" },
  { "loadfile of a dump behind a byte order mark", [[
      return (loadfile(write("x.luac", "\xef\xbb\xbf" .. string.dump(function() return 1 end)))) ]], gives = "nil" },
  { "dofile of a dump", [[ return dofile(write("x.luac", string.dump(function() return 1 end))) ]], fails = BINARY },
  { "require of a dump", [[
      write("dumped.lua", string.dump(function() return 1 end))
      package.path = "./?.lua"
      return require "dumped" ]], fails = BINARY },
  { "package.searchers on a dump", [[
      write("dumped.lua", string.dump(function() return 1 end))
      package.path = "./?.lua"
      for _, searcher in ipairs(package.searchers) do
        local ok, found = pcall(searcher, "dumped")
        if ok and type(found) == "function" then return "loaded" end
      end
      return "refused" ]], gives = "refused" },
  { "the original load out of the registry", [[ return debug.getregistry()[2].load ]], fails = "registry" },
  { "the original load as an upvalue", [[ return debug.getupvalue(load, 1) ]], gives = "" },
  { "string.dump of a function of the library in C", [[ return string.dump(ml.add) ]], fails = "unable to dump" },
  { "string.dump of a function of the library", [[ return type(string.dump(nn.Module.forward)) ]], gives = "string" },
  { "a text of a megabyte in one line", [[ return load("return " .. ("1+"):rep(300000) .. "1")() ]], gives = "300001" },
  { "a text that nests too deeply", [[ return (select(2, load("return " .. ("("):rep(300) .. "1" .. (")"):rep(300)))) ]],
    gives = "C stack overflow" },
  { "a text with too many constants, locals and upvalues", [[
      local locals = {}
      for i = 1, 201 do locals[i] = "local x" .. i end
      return (select(2, load(table.concat(locals, "\n")))):match "too many local variables" ]], gives = "too many local variables" },
  { "a literal string that does not end", [=[ return (load("return [[" .. ("x"):rep(100000))) ]=], gives = "nil" },
  { "a goto without a label", [[ return (load "goto nowhere") ]], gives = "nil" },
  { "an attribute that nobody has", [[ return (select(2, load "local x <hostile> = 1")):match "unknown attribute" ]],
    gives = "unknown attribute" },

  -- On the command line.
  { "a script that is a dump", [[ ]], exit = 1, err = BINARY, setup =
    [[printf '\033LuaT\0\031\223\r\n\032\n\004\010\010' >x.luac]], run = "x.luac", leaves = "x.luac" },
  { "a dump on standard input", [[ ]], exit = 1, err = BINARY, input = string.dump(function() return 1 end), run = "-" },
  { "a dump cut off, allowed", [[
      local bytes = string.dump(function(...) local x = ... return function() return x, "text", 1.5, 7 end end)
      local loaded = 0
      for n = 1, #bytes - 1 do
        if load(bytes:sub(1, n), "x", "b") then loaded = loaded + 1 end
      end
      print(loaded, load(bytes)(7)()) ]], exit = 0, out = "^0\t7\ttext\t1.5\t7\n$", run = "--bytecode ../code.lua" },
  { "a dump of another version, allowed", [[
      local bytes = string.dump(function() return 1 end)
      print(load(bytes:sub(1, 4) .. "\x53" .. bytes:sub(6))) ]],
    exit = 0, out = "^nil\t.*version mismatch", run = "--bytecode ../code.lua" },
  { "a dump of another format, allowed", [[
      local bytes = string.dump(function() return 1 end)
      print(load(bytes:sub(1, 5) .. "\1" .. bytes:sub(7))) ]],
    exit = 0, out = "^nil\t.*format mismatch", run = "--bytecode ../code.lua" },
  { "a dump whose integers are of another kind, allowed", [[
      local bytes = string.dump(function() return 1 end)
      print(load(bytes:sub(1, 14) .. "\4" .. bytes:sub(16))) ]],
    exit = 0, out = "^nil\t.*mismatch", run = "--bytecode ../code.lua" },
}
