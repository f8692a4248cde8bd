-- tests/lua/cuda/cuda_kernels_test.lua: the typed CUDA kernels in every dtype, on the layouts that choose
-- among them (packs of 16 bytes, rests, rows, columns, views), compared with the CPU. Skips without
-- a device.

package.path = (arg[0]:match "^(.*)/" or ".") .. "/../?.lua;" .. package.path
local ml = require "moonlet"
local harness = require "harness"
local checks = require "device_checks"
local on_device, agree, draw = checks.on_device, checks.agree, checks.draw

local FLOATS = { "float16", "bfloat16", "float32", "float64" }
local INTS = { "bool", "uint8", "int8", "int16", "int32", "int64" }
local COMPLEX = { "complex64", "complex128" }

-- Shapes of two operands, by what their elements lie like.
local LAYOUTS = {
  { "dense", { 4099 }, { 4099 } },
  { "one", { 1 }, { 1 } },
  { "less than a pack", { 3 }, { 3 } },
  { "row", { 33, 64 }, { 64 } },
  { "column", { 33, 64 }, { 33, 1 } },
  { "column first", { 33, 1 }, { 33, 64 } },
  { "channels", { 3, 5, 4, 16 }, { 5, 1, 1 } },
  { "outer", { 5, 1, 32 }, { 1, 7, 32 } },
  { "four outer dimensions", { 2, 1, 3, 1, 16 }, { 1, 2, 1, 3, 16 } },
  { "odd rows", { 33, 21 }, { 21 } },
  { "0-d", { 40, 32 }, {} },
}

local function each_layout(f)
  for _, layout in ipairs(LAYOUTS) do f(table.unpack(layout)) end
end

on_device("two operands in every dtype and layout", function()
  each_layout(function(name, first, second)
    for _, dtypes in ipairs { FLOATS, INTS, COMPLEX } do
      for _, dtype in ipairs(dtypes) do
        local a, b = draw(first, dtype), draw(second, dtype)
        local what = ("%s of %s"):format(name, dtype)
        agree("mul, " .. what, function(x, y) return x * y end, a, b)
        agree("eq, " .. what, function(x, y) return x:eq(y) end, a, b)
        agree("where, " .. what, function(x, y) return ml.where(x:ne(0), x, y) end, a, b)
        if dtypes ~= COMPLEX and dtype ~= "bool" then
          agree("maximum, " .. what, function(x, y) return ml.maximum(x, y), x:gt(y) end, a, b)
        end
      end
    end
  end)
end)

on_device("numbers beside tensors", function()
  for _, dtype in ipairs(FLOATS) do
    for _, size in ipairs { 1, 5, 8, 1000, 5003 } do
      agree("of " .. dtype, function(x) return x * 0.3 + 1, 2 - x, x:clamp(-0.5, 0.5), x:gt(0.1), x:exp() end,
        draw({ size }, dtype))
    end
  end
  for _, dtype in ipairs { "uint8", "int8", "int32", "int64" } do
    agree("of " .. dtype, function(x) return x * 3, x:eq(2), x:clamp(1, 4), -x end, draw({ 1037 }, dtype))
  end
end)

on_device("operands of two dtypes", function()
  local a, b = draw({ 33, 64 }, "float16"), draw({ 33, 64 }, "float32")
  agree("a half and a float", function(x, y) return x * y, y - x end, a, b)
  agree("an integer and a half", function(x, y) return x * y end, draw({ 64 }, "int32"), a)
  agree("bytes of two kinds", function(x, y) return x + y end, draw({ 640 }, "uint8"), draw({ 640 }, "int8"))
  agree("a mask and bytes", function(x, y) return x * y end, draw({ 640 }, "bool"), draw({ 640 }, "uint8"))
end)

on_device("views", function()
  for _, dtype in ipairs { "bool", "uint8", "float16", "bfloat16", "float32", "float64", "complex128" } do
    local x = draw({ 70, 96 }, dtype)
    local function mul(a, b) return a * b end
    agree("of later rows", mul, x:narrow(1, 2, 60), x:narrow(1, 3, 60))
    agree("of later columns", mul, x:narrow(2, 2, 64), x:narrow(2, 17, 64))
    agree("transposed", mul, x:t(), x:narrow(1, 1, 70):t())
    agree("one of them transposed", mul, x:narrow(2, 1, 70), x:narrow(2, 1, 70):t())
    agree("every other column", mul, x:select(1, 1), x:select(1, 2))
    agree("in place", function(a)
      local y = a:clone()
      y:narrow(2, 17, 64):mul_(a:narrow(2, 1, 64))
      y:narrow(2, 3, 7):copy_(a:narrow(2, 1, 7))
      return y
    end, x)
  end
end)

on_device("masks and values", function()
  for _, dtype in ipairs(FLOATS) do
    local x, mask = draw({ 48, 80 }, dtype), draw({ 48, 80 }, "bool")
    agree("masked_fill of " .. dtype, function(a, m) return a:masked_fill(m, 7) end, x, mask)
    agree("of rows", function(a, m) return a:masked_fill(m, -1) end, x, mask:narrow(1, 1, 1))
    agree("of columns", function(a, m) return a:masked_fill(m, -1) end, x, mask:narrow(2, 1, 1))
    agree("addcmul", function(a) return ml.addcmul(a, a, a, { value = 0.25 }) end, x)
  end
end)

on_device("special numbers in 16 bits", function()
  local bits = ml.arange(0, 65535):to "int32":to "int16"
  for _, dtype in ipairs { "float16", "bfloat16" } do
    agree("all of " .. dtype, function(x)
      local y = x:view(dtype)
      return y:to "float32", y * 1, y:to "float32":to(dtype)
    end, bits)
  end
end)

on_device("casts between all dtypes", function()
  for _, size in ipairs { 1, 7, 1000, 4099 } do
    for _, from in ipairs { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
      "float64", "complex64", "complex128" } do
      local x = draw({ size }, from)
      for _, to in ipairs { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
        "float64", "complex64", "complex128" } do
        if not (from:find "complex" and not to:find "complex") then
          agree(from .. " to " .. to, function(t) return t:to(to), t:narrow(1, 1, math.max(1, size - 1)):to(to) end, x)
        end
      end
    end
  end
  local extreme = ml.tensor { 0.25, -0.5, 300, -129, 1e20, -1e20, 0 / 0, 1 / 0 }
  for _, to in ipairs { "bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16" } do
    agree("beyond the range of " .. to, function(t) return t:to(to) end, extreme)
  end
end)

on_device("copies of columns and rows in every width of elements", function()
  for _, dtype in ipairs { "uint8", "float16", "float32", "float64", "complex128" } do
    for _, shape in ipairs { { 64, 128 }, { 33, 130 }, { 130, 7 }, { 40, 36 } } do
      local x = draw(shape, dtype)
      agree("a transposed " .. dtype, function(t) return t:t():contiguous() end, x)
      agree("a part of one", function(t) return t:narrow(2, 3, 4):t():contiguous() end, x)
    end
    local x = draw({ 3, 20, 36, 24 }, dtype)
    for _, order in ipairs { { 1, 3, 4, 2 }, { 1, 4, 2, 3 }, { 4, 3, 2, 1 }, { 2, 1, 3, 4 }, { 3, 4, 1, 2 } } do
      agree("permuted " .. dtype, function(t) return t:permute(order):contiguous() end, x)
    end
    agree("expanded " .. dtype, function(t)
      return t:narrow(2, 1, 1):expand(3, 20, 36, 24):contiguous()
    end, x)
    agree("narrow " .. dtype, function(t)
      return t:narrow(4, 1, 16):contiguous(), t:narrow(4, 4, 7):contiguous(), t:narrow(3, 2, 9):contiguous()
    end, x)
    agree("filled " .. dtype, function(t)
      local y = t:clone()
      y:narrow(4, 5, 8):fill_(1)
      y:select(4, 2):fill_(1)
      return y, y:clone():zero_()
    end, x)
  end
end)

-- Sums of halves are kept in float32, in another order than the CPU's.
local function agree_on_dims(dtype, x, dims)
  local what = ("%s %s along %s"):format(dtype, x.shape, table.concat(dims, ","))
  if dtype ~= "bool" then
    agree("sum of " .. what, function(t) return t:sum(dims), t:amax(dims), t:amin(dims) end, x)
  end
  agree("truth of " .. what, function(t) return t:any(dims), t:all(dims), t:count_nonzero(dims) end, x)
  if #dims == 1 and dtype ~= "bool" then
    agree("positions of " .. what, function(t)
      return t:argmax(dims[1]), t:argmin(dims[1]), t:max(dims[1])
    end, x)
  end
  if not x:is_floating_point() then return end
  agree("mean of " .. what, function(t) return t:mean(dims), t:nansum(dims) end, x)
  agree("spread of " .. what, function(t)
    return t:var(dims), t:norm(2, dims), t:norm(1, dims), t:norm(3, dims), t:logsumexp(dims)
  end, x)
end

on_device("reductions along rows and columns of every dtype", function()
  for _, dtype in ipairs { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
    "float64" } do
    for _, shape in ipairs { { 5, 3 }, { 7, 40 }, { 40, 16 }, { 6, 1000 }, { 3, 5003 }, { 600, 21 }, { 900, 64 } } do
      local x = draw(shape, dtype) * (dtype == "bool" and true or 1)
      agree_on_dims(dtype, x, { 1 })
      agree_on_dims(dtype, x, { 2 })
    end
    local x = draw({ 3, 8, 5, 16 }, dtype)
    for _, dims in ipairs { { 1 }, { 2 }, { 3 }, { 4 }, { 1, 3, 4 }, { 2, 4 }, { 1, 2 }, { 3, 4 }, { 1, 2, 3, 4 } } do
      agree_on_dims(dtype, x, dims)
    end
    agree_on_dims(dtype, x:transpose(2, 4), { 2 })
    agree_on_dims(dtype, x:narrow(4, 2, 13), { 4 })
    agree_on_dims(dtype, x:narrow(4, 2, 13), { 1 })
  end
end)

on_device("long rows and columns, which several blocks share", function()
  for _, dtype in ipairs { "float16", "float32", "int32", "uint8" } do
    local x = draw({ 2, 40011 }, dtype)
    agree_on_dims(dtype, x, { 2 })
    agree_on_dims(dtype, x:t():contiguous(), { 1 })
    agree_on_dims(dtype, x, { 1, 2 })
  end
end)

on_device("a sum does not depend on where a tensor lies", function()
  for _, dtype in ipairs { "float16", "float32" } do
    local whole = ml.randn({ 4 * 5000 + 16 }):to(dtype):to "cuda"
    local x = whole:narrow(1, 1, 20000):reshape(4, 5000)
    local moved = whole:clone()
    moved:narrow(1, 4, 20000):copy_(whole:narrow(1, 1, 20000))
    moved = moved:narrow(1, 4, 20000):view(4, 5000)
    for dim = 1, 2 do
      harness.expect.equal(moved:float():equal(x:float()), true)
      harness.expect.equal(moved:sum(dim):equal(x:sum(dim)), true)
    end
  end
end)

on_device("NaN and infinities in reductions", function()
  for _, dtype in ipairs(FLOATS) do
    local x = draw({ 33, 72 }, dtype)
    x:select(1, 3):fill_(1 / 0)
    x:select(2, 5):fill_(-1 / 0)
    x:narrow(1, 20, 2):narrow(2, 30, 4):fill_(0 / 0)
    for dim = 1, 2 do
      agree(dtype .. " along " .. dim, function(t)
        return t:amax(dim), t:amin(dim), t:argmax(dim), t:argmin(dim), t:nansum(dim), t:logsumexp(dim)
      end, x)
    end
  end
end)

on_device("softmax of rows that lanes, a block or memory holds", function()
  for _, dtype in ipairs(FLOATS) do
    for _, shape in ipairs { { 3, 1 }, { 40, 7 }, { 9, 64 }, { 5, 500 }, { 3, 3000 }, { 2, 9001 }, { 2, 12000 },
      { 30, 4, 6 } } do
      local x, g = draw(shape, dtype), draw(shape, dtype)
      for dim = 1, #shape do
        agree(("softmax of %s %s along %d"):format(dtype, x.shape, dim), function(t, up)
          local a, b = t:clone():requires_grad_(), t:clone():requires_grad_()
          local y, z = a:softmax(dim), b:log_softmax(dim)
          y:backward(up)
          z:backward(up)
          return y:detach(), z:detach(), a.grad, b.grad
        end, x, g)
      end
    end
    local x = draw({ 4, 6000 }, dtype)
    x:narrow(2, 1, 3000):fill_(-1 / 0)
    x:select(1, 2):fill_(-1 / 0)
    x:narrow(1, 3, 1):narrow(2, 5, 1):fill_(0 / 0)
    agree("infinities", function(t)
      return t:softmax(2), t:log_softmax(2), t:narrow(2, 1, 3100):softmax(2), t:narrow(2, 2990, 40):softmax(2)
    end, x)
  end
end)

on_device("norms of rows and channels", function()
  local nn = ml.nn.functional
  for _, dtype in ipairs(FLOATS) do
    for _, shape in ipairs { { 7, 3 }, { 9, 64 }, { 5, 500 }, { 3, 3001 }, { 2, 9001 }, { 700, 40 } } do
      local size = shape[2]
      local x, g, w, b = draw(shape, dtype), draw(shape, dtype), draw({ size }, dtype), draw({ size }, dtype)
      agree(("layer_norm of %s %s"):format(dtype, x.shape), function(t, up, weight, bias)
        local a, v = t:clone():requires_grad_(), weight:clone():requires_grad_()
        local y = nn.layer_norm(a, { size }, v, bias)
        y:backward(up)
        local plain = t:clone():requires_grad_()
        local z = nn.layer_norm(plain, { size })
        z:backward(up)
        return y:detach(), a.grad, z:detach(), plain.grad, v.grad
      end, x, g, w, b)
    end
    local x, w = draw({ 4, 6, 5, 8 }, dtype), draw({ 6 }, dtype)
    agree("norms of channels of " .. dtype, function(t, weight)
      local a = t:clone():requires_grad_()
      local y = nn.batch_norm(a, nil, nil, weight, weight, true)
      y:backward(t)
      return y:detach(), a.grad, nn.group_norm(t, 3, weight, weight), nn.rms_norm(t, { 8 })
    end, x, w)
  end
end)

harness.run()
