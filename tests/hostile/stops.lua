-- tests/hostile/stops.lua: what runs long inside one library function is interrupted there, and recursion
-- that nothing else counts ends.

-- A row whose code is interrupted once, and must end with the error.
local function interrupted(name, code)
  return { name, 'print "ready" io.stdout:flush();\n' .. code .. '\nprint "not stopped"', signals = { 0.15, "INT" },
    exit = 1, out = "^ready\n$", err = "interrupted!" }
end

return {
  interrupted("a pattern with three lazy items", [[ ("a"):rep(5000):find ".-.-.-b" ]]),
  interrupted("a pattern with many optional items", [[ ("a"):rep(60):match(("a?"):rep(60) .. ("a"):rep(61)) ]]),
  interrupted("gsub of what is never found", [[ ("a"):rep(3000000):gsub(".-b", "") ]]),
  interrupted("gmatch of what is never found", [[ for _ in ("a"):rep(3000000):gmatch "a-b" do end ]]),
  interrupted("balanced brackets that never close", [[ ("("):rep(3000000):find "%b()x" ]]),
  interrupted("captures that come again and again", [[ ("ab"):rep(30000):find "(.-)(.-)%1%2$c" ]]),
  interrupted("insert into a list that says it is endless", [[
    table.insert(setmetatable({}, { __len = function() return 1 << 60 end }), 1, "x") ]]),
  interrupted("remove from a list that says it is endless", [[
    table.remove(setmetatable({}, { __len = function() return 1 << 60 end }), 1) ]]),
  interrupted("moving all integers", "table.move({}, 1, 1 << 60, 2)"),
  interrupted("concat of what C makes", [[ table.concat(setmetatable({}, { __index = rawlen }), "", 1, 1 << 31) ]]),
  interrupted("a sort whose order C gives", [[
    table.sort(setmetatable({}, { __len = function() return (1 << 31) - 2 end }), rawequal) ]]),
  interrupted("a chunk with many labels", [[
    local t = {}
    for i = 1, 30000 do t[i] = "::l" .. i .. ":: a()" end
    load(("local function f() " .. table.concat(t, " ") .. " end "):rep(190)) ]]),
  interrupted("a chunk with many branches", [[ load("if a then " .. ("elseif a then "):rep(400000) .. "end") ]]),
  interrupted("a chunk with many branches, given by a function", [[
    local given = false
    load(function()
      if given then return nil end
      given = true
      return "if a then " .. ("elseif a then "):rep(400000) .. "end"
    end) ]]),

  -- A Loop with neither a number of trips nor a condition.
  interrupted("a loop of an ONNX graph", [[
    local ml = require "moonlet"
    local file = io.open("x.onnx", "wb")
    local bytes = ("08083a9f010a83010a000a000a017812017a22044c6f6f702a710a04626f647932660a110a0163120263322208"
      .. "4964656e746974790a0f0a01610a01611202613222034164641201675a0b0a016912060a04080712005a0b0a01"
      .. "6312060a04080912005a090a016112040a020801620c0a02633212060a0408091200620a0a02613212040a0208"
      .. "01a001051201675a090a017812040a02080162090a017a12040a02080142040a001011")
    file:write((bytes:gsub("%x%x", function(hex) return string.char(tonumber(hex, 16)) end))):close()
    local model = ml.onnx.load "x.onnx"
    os.remove "x.onnx"
    model(ml.ones(2)) ]]),

  { "string.rep of nothing, often", [[ return #(""):rep(math.maxinteger), #(""):rep(1 << 60, "") ]], gives = "0, 0" },
  { "a text that has the beginning of what is sought everywhere", [[
      return (("a"):rep(20000000):find(("a"):rep(10000000) .. "b", 1, true)) ]], gives = "nil" },
  { "recursion through checkpoint", [[
      local function f() return ml.utils.checkpoint(f, ml.ones{1, requires_grad = true}) end
      return f() ]], fails = "nest too deeply" },
  { "recursion through checkpoint, caught, then a checkpoint", [[
      local function f() return ml.utils.checkpoint(f, ml.ones{1, requires_grad = true}) end
      for _ = 1, 3 do pcall(f) end
      local x = ml.ones{2, requires_grad = true}
      ml.utils.checkpoint(function(t) return t * t end, x):sum():backward()
      return x.grad:sum():item() ]], gives = "4.0" },
  { "checkpoints in coroutines that are left behind", [[
      for _ = 1, 600 do
        coroutine.wrap(function()
          ml.utils.checkpoint(function(t) coroutine.yield() return t end, ml.ones{1, requires_grad = true})
        end)()
      end
      local x = ml.ones{2, requires_grad = true}
      ml.utils.checkpoint(function(t) return t * t end, x):sum():backward()
      return x.grad:sum():item() ]], gives = "4.0" },
  { "a stack of 400 KiB", [[
      local function f() return (("x"):gsub("x", f)) end
      print(pcall(f))
      local t = setmetatable({}, { __tostring = function(t) return ("%s"):format(t) end })
      print((pcall(tostring, t)))
      local function host() return coroutine.wrap(host)() end
      print((pcall(host)))
      print(ml.ones(20, 20):mm(ml.ones(20, 20)):sum():item()) ]],
    exit = 0, out = "C stack overflow.*\nfalse\nfalse\n8000.0", setup = "ulimit -s 400", sanitized = "frames are larger" },
}
