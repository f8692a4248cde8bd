-- tests/lint/machine_code.lua: what nvcc made of the fast kernels: nothing is spilled to the stack,
-- 16 bytes are loaded and stored at once, registers are left for enough threads, and products are of
-- the instruction that they should be; tiles of attention arrive while it computes, which never jumps
-- to an address out of a table.
-- usage: lua machine_code.lua CUOBJDUMP OBJECT... Exits with 77 without code for one GPU.

local tool = arg[1]

-- Kernels by a pattern of their mangled names: whether they load and store 16 bytes at once, whether
-- they may write to the stack, the most registers they may take, an instruction that must be among
-- theirs, whether 16 bytes at once are copied to shared memory in the background, and whether no
-- branch may be indirect. The first that fits counts.
local RULES = {
  -- The sign is in the upper half of a number.
  { name = "packed_kernel.*7Signbit", registers = 128 },
  -- For large angles CUDA's own functions keep digits of pi in a table on the stack.
  { name = "packed_kernel.*3SinE", loads = true, stores = true, stack = true, registers = 128 },
  { name = "packed_kernel.*3CosE", loads = true, stores = true, stack = true, registers = 128 },
  { name = "packed_kernel.*3TanE", loads = true, stores = true, stack = true, registers = 128 },
  -- A mask is written in packs of fewer bytes.
  { name = "packed_kernel.*Lb1EEEv", loads = true, registers = 128 },
  { name = "packed_kernel", loads = true, stores = true, registers = 128 },
  { name = "move_kernel.*Bytes16", loads = true, stores = true, registers = 64 },
  { name = "fill_kernel.*Bytes16", stores = true, registers = 64 },
  -- Casts from and to one byte move 8 on that side; of int64 only the lower halves may be read.
  { name = "cast_kernel", registers = 96 },
  { name = "reduce_rows_kernel", loads = true, registers = 128 },
  { name = "reduce_columns_kernel", loads = true, registers = 128 },
  { name = "list_norm_kernel", loads = true, registers = 128 },
  { name = "list_limit_kernel", loads = true, stores = true, registers = 128 },
  { name = "channel_planes_kernel", loads = true, registers = 128 },
  { name = "channel_columns_kernel", loads = true, registers = 128 },
  { name = "channel_lines_kernel", loads = true, stores = true, registers = 128 },
  { name = "softmax_rows_kernel", loads = true, stores = true, registers = 128 },
  { name = "softmax_long_kernel", loads = true, stores = true, registers = 128 },
  { name = "softmax_columns_kernel", loads = true, stores = true, registers = 128 },
  { name = "gradient_columns_kernel", loads = true, stores = true, registers = 128 },
  { name = "gradient_long_kernel", loads = true, stores = true, registers = 128 },
  { name = "gradient_rows_kernel", loads = true, stores = true, registers = 128 },
  { name = "join_pieces_kernel.*Packed", loads = true, stores = true, registers = 128 },
  { name = "join_runs_kernel.*Packed", loads = true, stores = true, registers = 128 },
  { name = "put_kernel.*Bytes16", loads = true, stores = true, registers = 64 },
  { name = "select_kernel.*Bytes16", loads = true, stores = true, registers = 128 },
  { name = "gather_kernel.*Bytes16", loads = true, stores = true, registers = 128 },
  { name = "index_kernel.*Bytes16", loads = true, stores = true, registers = 64 },
  { name = "12count_kernelIb", loads = true, registers = 64 },
  -- The totals of pieces are numbers of the compute type, read one by one.
  { name = "TotalsOf.*PackedRunning", registers = 128 },
  { name = "scan_lanes_kernel.*PackedRunning", loads = true, stores = true, registers = 128 },
  { name = "scan_blocks_kernelILb0.*PackedRunning", loads = true, stores = true, registers = 128 },
  { name = "scan_blocks_kernelILb1.*PackedRunning", loads = true, registers = 128 },
  { name = "sort_tiles_kernel", registers = 64 },
  { name = "normalise_rows_kernel", loads = true, stores = true, registers = 128 },
}
-- Kernels of products: the instruction that each kind of element is multiplied with.
for _, kernel in ipairs {
  { name = "attend_%a*_?kernel", stores = true, copies = true, direct = true, registers = 255 },
  { name = "11conv_kernel", registers = 168 },
} do
  for _, unit in ipairs {
    { "HalfUnitINS_4half", "HMMA%.16816%.F32 " }, { "HalfUnit", "HMMA%.16816%.F32%.BF16 " },
    { "Tf32Unit", "HMMA%.1688%.F32%.TF32 " }, { "PlainUnitIf", "FFMA" }, { "PlainUnitId", "DFMA" },
  } do
    RULES[#RULES + 1] = { name = kernel.name .. ".*" .. unit[1], loads = kernel.loads,
      stores = kernel.stores, copies = kernel.copies, direct = kernel.direct,
      registers = kernel.registers, instruction = unit[2] }
  end
end
-- Others may keep short arrays on the stack.
local NO_RULE = { stack = true, registers = 255 }

local function rule_of(kernel)
  for _, rule in ipairs(RULES) do
    if kernel:find(rule.name) then return rule end
  end
  return NO_RULE
end

local function lines_of(option, object)
  return assert(io.popen(("'%s' %s '%s' 2>&1"):format(tool, option, object))):lines()
end

-- The kernels of an object: a table by name of their registers and what their code has.
local function kernels_of(object)
  local out, current = {}, nil
  for line in lines_of("-sass", object) do
    local name = line:match "Function : ([%w_$]+)"
    if name then
      current = { loads = false, stores = false, copies = false, indirect = false, spills = 0,
        registers = 0, instruction = rule_of(name).instruction }
      current.multiplies = current.instruction == nil
      out[name] = current
    elseif current then
      current.loads = current.loads or line:find("LDG%.E%S*%.128") ~= nil
      current.stores = current.stores or line:find("STG%.E%S*%.128") ~= nil
      current.copies = current.copies or line:find("LDGSTS%.E%S*%.128") ~= nil
      current.indirect = current.indirect or line:find "%f[%u]BRX%f[^%u]" ~= nil
      current.multiplies = current.multiplies or line:find(current.instruction) ~= nil
      if line:find "%f[%u]STL%f[^%u]" then current.spills = current.spills + 1 end
    end
  end
  for line in lines_of("-res-usage", object) do
    current = out[line:match "Function ([%w_$]+):"] or current
    local registers = line:match "REG:(%d+)"
    if registers and current then current.registers = tonumber(registers) end
  end
  return out
end

local problems, count, fast = 0, 0, 0
local function problem(object, kernel, what)
  problems = problems + 1
  print(("%s: %s %s"):format(object:match "[^/]*$", kernel, what))
end

for i = 2, #arg do
  for name, kernel in pairs(kernels_of(arg[i])) do
    local rule = rule_of(name)
    count = count + 1
    if rule ~= NO_RULE then fast = fast + 1 end
    if rule.loads and not kernel.loads then problem(arg[i], name, "loads no 16 bytes at once") end
    if rule.stores and not kernel.stores then problem(arg[i], name, "stores no 16 bytes at once") end
    if rule.copies and not kernel.copies then
      problem(arg[i], name, "copies no 16 bytes at once to shared memory")
    end
    if rule.direct and kernel.indirect then problem(arg[i], name, "has an indirect branch") end
    if not kernel.multiplies then
      problem(arg[i], name, "lacks the instruction " .. kernel.instruction)
    end
    if kernel.registers > rule.registers then
      problem(arg[i], name,
        ("takes %d registers, more than %d"):format(kernel.registers, rule.registers))
    end
    if not rule.stack and kernel.spills > 0 then
      problem(arg[i], name, ("writes %d times to the stack"):format(kernel.spills))
    end
  end
end
if count == 0 then
  print "skipped: cuobjdump found no machine code"
  os.exit(77)
end
print(("machine code: %d kernels, %d of them fast, %d problems"):format(count, fast, problems))
os.exit(problems == 0)
