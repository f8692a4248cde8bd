-- tests/lint/machine_code.lua: what nvcc made of the fast kernels: nothing is spilled to the stack,
-- 16 bytes are loaded and stored at once, registers are left for enough threads, products are of
-- the instruction that they should be, and rows and activations are few instructions and branches;
-- tiles of attention arrive while it computes, which never jumps to an address out of a table.
-- usage: lua machine_code.lua CUOBJDUMP [sm_NN] OBJECT... With an architecture, of the objects' several
-- that one is read. Exits with 77 without code for one GPU. cuobjdump runs nvdisasm, of its folder or PATH.

local tool = arg[1]
local arch = (arg[2] or ""):match "^sm_%d+%a?$"
local first_object = arch and 3 or 2

-- Kernels by a pattern of their mangled names: whether they load and store 16 bytes at once, whether
-- they may write to the stack, or "outside" of what lies between their products, the most registers they
-- may take, an instruction that must be among theirs, the most that they may have of instructions, of
-- branches and calls, and of those of the unit for 2^x and 1 / x, the most waits for products, whether 16
-- bytes at once are copied to shared memory in the background, and whether no branch may be indirect. The
-- first that fits counts.
local RULES = {
  -- Without a branch for an element, and few approximations for each of 16 and of one alone.
  { name = "packed_kernel.*6Coarse", loads = true, stores = true, registers = 64, instructions = 1300,
    branches = 40, approximations = 51 },
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
  { name = "optim_step_kernel", loads = true, stores = true, registers = 128 },
  { name = "optim_numbers_kernel", registers = 128 },
  { name = "channel_planes_kernel", loads = true, registers = 128 },
  { name = "channel_columns_kernel", loads = true, registers = 128 },
  { name = "plane_lines_kernel", loads = true, stores = true, registers = 64, instructions = 320, branches = 15 },
  { name = "column_lines_kernel", loads = true, stores = true, registers = 128, instructions = 600, branches = 23 },
  { name = "join_pieces_kernel.*Packed", loads = true, stores = true, registers = 128 },
  { name = "join_runs_kernel.*Packed", loads = true, stores = true, registers = 128 },
  { name = "join_pieces_kernelILb1.*SomeFloats.*Li[248]E", loads = true, stores = true, registers = 96,
    instructions = 650, branches = 35 },
  { name = "join_pieces_kernel.*SomeFloats.*Li[248]E", loads = true, stores = true, registers = 96 },
  { name = "join_runs_kernel.*SomeFloats.*Li[248]E", loads = true, stores = true, registers = 96 },
  { name = "join_pieces_kernel.*SomeFloats", registers = 64 },
  { name = "put_kernel.*Bytes16", loads = true, stores = true, registers = 64 },
  { name = "select_kernel.*Bytes16EiE", loads = true, stores = true, registers = 64, instructions = 820, branches = 60 },
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
}
-- Kernels of rows, and of random numbers: the most instructions for 16-bit floats, float32 and
-- float64, a third above what they have, and the most branches; approximations only where there are few.
-- The last field is false where single numbers are stored for a row.
for _, kernel in ipairs {
  { "entropy_rows", { 2200, 1800, 2300 }, 70, 85, false }, { "entropy_columns", { 2700, 1900, 2300 }, 90, 80, false },
  { "entropy_gradient_rows", { 1900, 1550, 1750 }, 78, 62 },
  { "entropy_gradient_columns", { 2400, 1600, 1200 }, 160, 32 },
  { "softmax_rows", { 1600, 1400, 2000 }, 90, 50 }, { "softmax_long", { 2000, 1800, 2600 }, 90, 105 },
  { "softmax_columns", { 2200, 1700, 2000 }, 90, 85 }, { "gradient_columns", { 1100, 800, 800 }, 40, 15 },
  { "norm_gradient_rows", { 2600, 1800, 1600 }, 75, 0 }, { "norm_gradient_long", { 1300, 900, 800 }, 35, 0 },
  { "gradient_rows", { 1900, 1500, 2000 }, 70, 45 }, { "gradient_long", { 1200, 900, 1200 }, 45, 30 },
  { "normalise_rows", { 5200, 4500, 4700 }, 310, 20 }, { "normalise_long", { 4500, 3900, 4000 }, 240, 20 },
  { "norm_weight_rows", { 2400, 2100, 2000 }, 230, 5, false },
} do
  for i, kind in ipairs { "IN", "If", "Id" } do
    RULES[#RULES + 1] = { name = kernel[1] .. "_kernel" .. kind, loads = true,
      stores = kernel[5] ~= false, registers = 128, instructions = kernel[2][i],
      branches = kernel[3], approximations = kernel[4] }
  end
end
-- Rows whose threads hold 1, 2 or 4 packs of each tensor: as many registers as two blocks or one leave.
for packs, registers in pairs { [1] = 128, [2] = 168, [4] = 255 } do
  RULES[#RULES + 1] = { name = "norm_all_gradients_kernel.-Li" .. packs .. "EEEv", loads = true, stores = true,
    registers = registers, instructions = 700 + 2000 * packs, branches = 80 + 60 * packs }
end
-- Of what is whole packs; of many vectors 3 blocks of 128 threads are on a multiprocessor.
for _, few in ipairs { { "[48]", 168 }, { "[12]", 128 } } do
  RULES[#RULES + 1] = { name = "skinny_%a*_kernel.*Li" .. few[1] .. "ELb1", loads = true, registers = few[2] }
end
for _, draws in ipairs {
  { "6Choice", 400, 15, 0 }, { "12UniformFloat", 450, 10, 0 }, { "11NormalFloat", 960, 60, 15 },
  { "8Integers", 430, 20, 4 },
} do
  RULES[#RULES + 1] = { name = "draw_packs_kernel.*" .. draws[1], stores = true, registers = 64,
    instructions = draws[2], branches = draws[3], approximations = draws[4] }
end
-- Kernels that are compiled for each dtype, of packs and of elements one by one: the most instructions
-- and branches, a third above what they have. Those of more numbers than 32 bits count have no rule.
for _, kernel in ipairs {
  { "step_packs_kernel.*ELi8E", 900, 4 }, { "step_packs_kernel.*fLi4E", 930, 56 },
  { "resample_kernelILi[248]E", 420, 11 }, { "resample_back_kernelILi[248]E", 330, 16 },
  { "average_kernelILi[248]E", 800, 62 }, { "10max_kernelILi[248]E", 490, 18 },
  { "spread_kernelILi[248]E", 1020, 65 },
} do
  RULES[#RULES + 1] = { name = kernel[1], loads = true, stores = true, registers = 80,
    instructions = kernel[2], branches = kernel[3] }
end
for _, kernel in ipairs {
  { "step_packs_kernel.*ELi1E", 270, 4 }, { "step_packs_kernel", 800, 27 },
  { "resample_kernel.*Typed", 250, 10 }, { "resample_back_kernel.*Typed", 290, 16 },
  { "11fold_kernel.*Typed", 150, 11 }, { "average_kernel.*Typed", 700, 48 },
  { "10max_kernel.*Typed", 400, 16 }, { "spread_kernel.*Typed", 2600, 170 },
  { "13unpool_kernel", 180, 15 }, { "unpool_channels_kernel", 950, 55 },
  { "ctc_forward_kernel", 1350, 70 }, { "ctc_backward_kernel", 1750, 70 },
  { "15gradient_kernel.*Typed", 480, 43 }, { "reduce_blocks_kernel.*4LossI.*Typed", 940, 48 },
  { "reduce_threads_kernel.*4LossI.*Typed", 680, 52 },
} do
  RULES[#RULES + 1] = { name = kernel[1], registers = 64, instructions = kernel[2], branches = kernel[3] }
end
for _, kernel in ipairs { { "unfold_kernelI.iLi[248]E", 215 }, { "unfold_kernelI.iLi16E", 360 } } do
  RULES[#RULES + 1] = { name = kernel[1], stores = true, registers = 64, instructions = kernel[2], branches = 4 }
end
-- A block of the widest tiles of float64 finds no register for one number, outside its loop over the keys.
RULES[#RULES + 1] = { name = "attend_kernel.*PlainUnitIdEELi64", stores = true, copies = true, direct = true,
  registers = 255, instruction = "DFMA", stack = true }
-- Depthwise convolution: of packs of channels, both ways and of the weight.
RULES[#RULES + 1] = { name = "thin_last_kernel.*Li[248]E", loads = true, stores = true, registers = 112, instructions = 700,
  branches = 30 }
RULES[#RULES + 1] = { name = "thin_last_weight_kernel.*Li[248]E", loads = true, registers = 80 }
-- Products of warpgroups are waited for twice a tile that passes by, of both gradients thrice; where ptxas
-- cannot tell that nothing touches their registers, it waits for each. Kernels of both keep numbers of their
-- outer loops on the stack.
for _, kind in ipairs { { "4half", "" }, { "8bfloat16", "%.BF16" } } do
  for _, kernel in ipairs { { "_kernel.*" .. kind[1], 2 }, { "_back_kernel.*" .. kind[1] .. "EEELi%d+EEELb0", 2 },
    { "_back_kernel.*" .. kind[1] .. "EEELi%d+EEELb1", 3, "outside" } } do
    RULES[#RULES + 1] = { name = "attend_warpgroup" .. kernel[1], stores = true, copies = true, direct = true,
      registers = 255, waits = kernel[2], stack = kernel[3], instruction = "HGMMA%.64x64x16%.F32" .. kind[2] .. " " }
  end
end
-- Kernels of products: the instruction that each kind of element is multiplied with.
for _, kernel in ipairs {
  { name = "attend_%a*_?kernel", stores = true, copies = true, direct = true, registers = 255 },
  { name = "11conv_kernel", registers = 168 },
  -- Of packs of channels, and of single ones.
  { name = "conv_last_%a*_?kernel", tail = ".*Li[248]EEEv", loads = true, registers = 168 },
  { name = "conv_last_%a*_?kernel", registers = 168 },
} do
  for _, unit in ipairs {
    { "HalfUnitINS_4half", "HMMA%.16816%.F32 " }, { "HalfUnit", "HMMA%.16816%.F32%.BF16 " },
    { "Tf32Unit", "HMMA%.1688%.F32%.TF32 " }, { "PlainUnitIf", "FFMA" }, { "PlainUnitId", "DFMA" },
  } do
    RULES[#RULES + 1] = { name = kernel.name .. ".*" .. unit[1] .. (kernel.tail or ""), loads = kernel.loads,
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

local folder = tool:match "^(.*)/" or "."
local function lines_of(option, object)
  local only = arch and "-arch " .. arch or ""
  return assert(io.popen(("PATH='%s':$PATH '%s' %s %s '%s' 2>&1"):format(folder, tool, option, only, object))):lines()
end

-- The kernels of an object: a table by name of their registers and what their code has.
local function kernels_of(object)
  local out, current = {}, nil
  for line in lines_of("-sass", object) do
    local name = line:match "Function : ([%w_$]+)"
    if name then
      current = { loads = false, stores = false, copies = false, indirect = false, spills = 0, inner = 0,
        pending = 0, registers = 0,
        instructions = 0, branches = 0, approximations = 0, waits = 0, instruction = rule_of(name).instruction }
      current.multiplies = current.instruction == nil
      out[name] = current
    elseif current then
      current.loads = current.loads or line:find("LDG%.E%S*%.128") ~= nil
      current.stores = current.stores or line:find("STG%.E%S*%.128") ~= nil
      current.copies = current.copies or line:find("LDGSTS%.E%S*%.128") ~= nil
      current.indirect = current.indirect or line:find "%f[%u]BRX%f[^%u]" ~= nil
      if current.instruction and line:find(current.instruction) then
        if current.multiplies then current.inner = current.inner + current.pending end
        current.multiplies, current.pending = true, 0
      end
      if line:find "%f[%u]STL%f[^%u]" then
        current.spills, current.pending = current.spills + 1, current.pending + 1
      end
      if line:find "^%s+/%*%x+%*/%s+%S" then current.instructions = current.instructions + 1 end
      if line:find "%f[%u]BRA%f[^%u]" or line:find "%f[%u]CALL%f[^%u]" then
        current.branches = current.branches + 1
      end
      if line:find "%f[%u]MUFU%f[^%u]" then current.approximations = current.approximations + 1 end
      if line:find "WARPGROUP%.DEPBAR" then current.waits = current.waits + 1 end
    elseif line:find "^cuobjdump fatal" or line:find "not found" then
      error(line, 0)
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

for i = first_object, #arg do
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
    for _, what in ipairs { "registers", "instructions", "branches", "approximations", "waits" } do
      if rule[what] and kernel[what] > rule[what] then
        problem(arg[i], name, ("takes %d %s, more than %d"):format(kernel[what], what, rule[what]))
      end
    end
    local spills = rule.stack == "outside" and kernel.inner or not rule.stack and kernel.spills or 0
    if spills > 0 then problem(arg[i], name, ("writes %d times to the stack"):format(spills)) end
  end
end
if count == 0 then
  print "skipped: cuobjdump found no machine code"
  os.exit(77)
end
print(("machine code: %d kernels, %d of them fast, %d problems"):format(count, fast, problems))
os.exit(problems == 0)
