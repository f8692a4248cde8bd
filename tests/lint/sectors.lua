-- tests/lint/sectors.lua: how well the kernels of the emulated device coalesce, from the file that
-- MOONLET_EMULATED_SECTORS named (docs/architecture/cuda-emulated.md): of what a warp's accesses moved, the share
-- that they asked for, the worst first. usage: lua5.4 tests/lint/sectors.lua FILE [LEAST]
-- With LEAST, a share such as 0.9, kernels below it that moved more than a few sectors are errors.
local FEW = 1000

local path, least = arg[1], tonumber(arg[2] or 0)
if not path or not least then error("usage: lua5.4 sectors.lua FILE [LEAST]", 0) end

local touched, needed, names = {}, {}, {}
for line in assert(io.open(path)):lines() do
  local name, all, wanted = line:match("^(.*)\t(%d+)\t(%d+)$")
  if not name then error(("%s: not a line of sectors: %s"):format(path, line), 0) end
  if not touched[name] then
    names[#names + 1] = name
    touched[name], needed[name] = 0, 0
  end
  touched[name] = touched[name] + tonumber(all)
  needed[name] = needed[name] + tonumber(wanted)
end

local function share(name) return touched[name] == 0 and 1 or needed[name] / touched[name] end
table.sort(names, function(a, b)
  local x, y = share(a), share(b)
  if x ~= y then return x < y end
  return a < b
end)

local bad = 0
for _, name in ipairs(names) do
  local low = share(name) < least and touched[name] > FEW
  if low then bad = bad + 1 end
  print(("%s%5.1f %%  %10d sectors  %s"):format(low and "low " or "", share(name) * 100,
    touched[name], name))
end
os.exit(bad == 0 and 0 or 1)
