-- tests/hostile/operands.lua: sizes, positions, shapes, numbers and dtypes that no op expects.

return {
  -- Sizes.
  { "sizes whose product overflows", [[ return ml.zeros(1 << 40, 1 << 40) ]], fails = "zeros: .*too large" },
  { "sizes whose bytes overflow", [[ return ml.zeros(1 << 62) ]], fails = "zeros: .*too large" },
  { "sizes that overflow beside a zero", [[ return ml.zeros(0, 1 << 40, 1 << 40).shape ]], fails = "too large" },
  { "the largest integer as a size", [[ return ml.zeros(math.maxinteger) ]], fails = "zeros: " },
  { "the smallest integer as a size", [[ return ml.zeros(math.mininteger) ]], fails = "zeros: .*negative" },
  { "hostile numbers as sizes", [[
      return refused("zeros: ", { -1, 0/0, 1/0, -1/0, 1.5, 1e300, "x", true, {}, print }, function(n) return ml.zeros(2, n) end)
    ]], gives = "9 of 10" },
  { "a whole float and a string as sizes", [[
      return ml.zeros(2.0).shape, (pcall(ml.zeros, "2")) ]], gives = "(2,), false" },
  { "nil among sizes", [[ return ml.zeros(2, nil, 3) ]], fails = "nil" },
  { "nil at the end of sizes", [[ return ml.ones(4):view(2, nil) ]], fails = "nil" },
  { "13 dimensions", [[ return ml.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1) ]], fails = "at most 12 dimensions" },
  { "64 dimensions", [[
      local sizes = {}
      for i = 1, 64 do sizes[i] = 1 end
      return ml.zeros(sizes) ]], fails = "at most 12 dimensions" },
  { "13 dimensions by unsqueeze", [[
      local x = ml.ones(1)
      for _ = 1, 12 do x = x:unsqueeze(1) end ]], fails = "at most 12 dimensions" },
  { "13 dimensions by newaxis", [[
      return ml.ones(1)[{ ml.newaxis, ml.newaxis, ml.newaxis, ml.newaxis, ml.newaxis, ml.newaxis, ml.newaxis, ml.newaxis,
        ml.newaxis, ml.newaxis, ml.newaxis, ml.newaxis, ml.newaxis }] ]], fails = "at most 12 dimensions" },
  { "13 dimensions by unfold", [[
      local x = ml.ones(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
      return x:unfold(1, 1, 1) ]], fails = "at most 12 dimensions" },
  { "arange without end", [[ return ml.arange(1, math.huge) ]], fails = "arange" },
  { "arange with a step of 0", [[ return ml.arange(1, 5, 0) ]], fails = "arange.*step" },
  { "arange with a step of NaN", [[ return ml.arange(1, 5, 0/0) ]], fails = "arange" },
  { "arange over all integers", [[ return ml.arange(math.mininteger, math.maxinteger) ]], fails = "arange" },
  { "arange at the last integers", [[
      local x = ml.arange(math.maxinteger - 2, math.maxinteger)
      return #x, x[3]:item() == math.maxinteger ]], gives = "3, true" },
  { "arange with the smallest step", [[ return ml.arange(1, 2, 1e-300) ]], fails = "arange" },
  { "linspace with -1 steps", [[ return ml.linspace(0, 1, -1) ]], fails = "linspace" },
  { "linspace with 0 and 1 steps", [[ return ml.linspace(0, 1, 0).shape, ml.linspace(3, 9, 1):item() ]], gives = "(0,), 3.0" },
  { "eye with -1 rows", [[ return ml.eye(-1) ]], fails = "eye" },
  { "eye of 2^32 rows", [[ return ml.eye(1 << 32) ]], fails = "eye: .*too large" },
  { "repeat to 2^62 elements", [[ return ml.ones(4):tile(1 << 60) ]], fails = "tile: .*too large" },
  { "repeat with a negative count", [[ return ml.ones(4):tile(-1) ]], fails = "tile" },
  { "repeat_interleave with huge counts", [[ return ml.ones(4):repeat_interleave(1 << 61) ]], fails = "repeat_interleave: .*too large" },
  { "repeat_interleave with negative counts", [[ return ml.ones(2):repeat_interleave(ml.tensor { 1, -1 }) ]],
    fails = "repeat_interleave" },
  { "expand to 2^62 elements, summed", [[
      return ml.ones(1):expand(1 << 62):sum() ]], fails = "expand: .*too large" },
  { "pad by 2^62", [[ return F.pad(ml.ones(1, 4), { 1 << 62, 1 << 62 }) ]], fails = "pad" },
  { "pad by less than everything", [[ return F.pad(ml.ones(1, 4), { -3, -3 }) ]], fails = "pad" },
  { "bincount of a huge value", [[ return ml.bincount(ml.tensor { 1 << 60 }) ]], fails = "bincount: .*too large" },
  { "randperm of -1 and of 2^62", [[ return refused("randperm", { -1, 1 << 62, 0/0 }, ml.randperm) ]], gives = "3 of 3" },
  { "diagonals far outside", [[
      return ml.ones(2, 2):triu(math.maxinteger):sum():item(), ml.ones(2, 2):triu(math.mininteger):sum():item() ]],
    gives = "0.0, 4.0" },
  { "cumulative sums of nothing", [[ return ml.zeros(0):cumsum(1).shape, ml.zeros(0, 3):cumsum(1).shape ]], gives = "(0,), (0, 3)" },
  { "reductions of 2^40 elements that share one position", [[
      local x = ml.ones(1):expand(1 << 40)
      return x:sum():item() == 2.0 ^ 40, x:mean():item(), x:amax():item(), x:argmax():item() ]], gives = "true, 1.0, 1.0, 1" },

  -- Positions.
  { "position 0", [[ return ml.ones(3)[0] ]], fails = "index 0" },
  { "hostile positions", [[
      local x = ml.ones(3, 3)
      return refused("index", { 0, 4, -4, math.mininteger, math.maxinteger, 0/0, 1/0, 1.5, -0.0 }, function(i) return x[i] end)
    ]], gives = "9 of 9" },
  { "hostile positions to write to", [[
      local x = ml.ones(3, 3)
      return refused("index", { 0, 4, -4, math.mininteger, math.maxinteger, 0/0, 1/0, 1.5, -0.0 }, function(i) x[i] = 5 end),
        x:sum():item() ]], gives = "9 of 9, 9.0" },
  { "hostile positions in a tensor of positions", [[
      local x = ml.ones(3)
      return refused("index", { 0, 4, -4, math.mininteger, math.maxinteger }, function(i) return x[ml.tensor { 1, i }] end)
    ]], gives = "5 of 5" },
  { "hostile positions for gather, take, index_select and scatter", [[
      local x = ml.ones(3, 3)
      local calls = {
        function(i) return x:gather(1, ml.tensor { { i } }) end,
        function(i) return x:index_select(1, ml.tensor { i }) end,
        function(i) return x:scatter(1, ml.tensor { { i } }, 5) end,
        function(i) return x:clone():scatter_add_(1, ml.tensor { { i } }, ml.ones(1, 1)) end,
        function(i) return x:clone():index_add_(1, ml.tensor { i }, ml.ones(1, 3)) end,
        function(i) return F.embedding(ml.tensor { i }, x) end,
        function(i) return ml.nll_loss(x, ml.tensor { 1, 1, i }) end,
        function(i) return F.cross_entropy(x, ml.tensor { 1, 1, i }) end,
      }
      local out = {}
      for k, f in ipairs(calls) do
        out[k] = refused("%d", { 0, 10, -10, math.mininteger, math.maxinteger }, f):match "%d"
      end
      return table.concat(out) ]], gives = "55555555" },
  { "a tensor of floats as positions", [[ return ml.ones(3)[ml.tensor { 1.0 }] ]], fails = "index" },
  { "a mask of another shape", [[ return ml.ones(3)[ml.tensor { true, false }] ]], fails = "mask" },
  { "a mask of more dimensions", [[ return ml.ones(3)[ml.ones(3, 3):gt(0)] ]], fails = "index: 2 positions for a tensor of shape %(3,%)" },
  { "more positions than dimensions", [[ return ml.ones(3)[{ 1, 1 }] ]], fails = "index" },
  { "two ellipses", [[ return ml.ones(3)[{ ml.ellipsis, ml.ellipsis }] ]], fails = "ellips" },
  { "hostile slices as text", [[
      local x = ml.ones(3, 3)
      return refused("index", { "1:2:0", "1;2", "1:2,,", ("1,"):rep(1000), "9999999999999999999999", "1:2:-1", "1:nan" },
        function(text) return x[text] end) ]], gives = "7 of 7" },
  { "a slice with a step of 0", [[ return ml.ones(3)[{ { 1, 3, 0 } }] ]], fails = "step" },
  { "a slice with the smallest step", [[ return ml.ones(3)[{ { 1, 3, math.mininteger } }] ]], fails = "step" },
  { "a slice with the largest step", [[ return ml.ones(3)[{ { 1, 3, math.maxinteger } }]:sum():item() ]], gives = "1.0" },
  { "narrow beyond the end", [[
      local x = ml.ones(3)
      return refused("narrow", { { 1, 4 }, { 3, 2 }, { 1, math.maxinteger }, { math.maxinteger, 1 }, { 2, -1 }, { 0, 1 } },
        function(a) return x:narrow(1, a[1], a[2]) end) ]], gives = "6 of 6" },
  { "select of dimensions that are not there", [[
      local x = ml.ones(3, 3)
      return refused("dim", { 0, 3, -3, math.mininteger, math.maxinteger, 1.5, 0/0 }, function(d) return x:select(d, 1) end)
    ]], gives = "7 of 7" },
  { "sums over dimensions that are not there", [[
      local x = ml.ones(3, 3)
      return refused("dim", { 0, 3, -3, math.mininteger, math.maxinteger, 0/0, { 1, 1 }, { 1, -2 }, { 0 } },
        function(d) return x:sum(d) end) ]], gives = "9 of 9" },
  { "permute with a dimension twice", [[ return ml.ones(2, 3):permute(1, 1) ]], fails = "permute" },
  { "permute with too few", [[ return ml.ones(2, 3):permute(1) ]], fails = "permute" },
  { "as_strided outside of its memory", [[
      local x = ml.ones(4)
      return refused("as_strided", { { { 5 }, { 1 }, 0 }, { { 2 }, { 1 << 62 }, 0 }, { { 1 }, { 1 }, 4 }, { { 1 }, { 1 }, -1 },
        { { 2 }, { -1 }, 0 }, { { 1 << 40, 1 << 40 }, { 1, 1 }, 0 }, { { 2 }, { 1, 1 }, 0 }, { { 1 }, { 1 }, math.maxinteger } },
        function(a) return x:as_strided(a[1], a[2], a[3]) end) ]], gives = "8 of 8" },
  { "set_ outside of its memory", [[
      local s = ml.ones(4):storage()
      return refused("set_", { { 0, { 5 } }, { 4, { 1 } }, { -1, { 1 } }, { math.maxinteger, { 1 } }, { 0, { 1 << 62 } } },
        function(a) return ml.empty(0):set_(s, a[1], a[2]) end) ]], gives = "5 of 5" },
  { "resize_ to a huge size", [[ return ml.ones(2):resize_(1 << 62) ]], fails = "resize_" },
  { "resize_ to a negative size", [[ return ml.ones(2):resize_(-1) ]], fails = "resize_" },
  { "a storage read outside", [[
      local s = ml.ones(3):storage()
      return refused("Storage", { 0, 4, -4, math.mininteger, math.maxinteger, 0/0, 1.5, "x" }, function(i) s[i] = 5 end) ]],
    gives = "8 of 8" },
  { "writing to an expanded tensor", [[ return ml.ones(1):expand(4):add_(1) ]], fails = "add_" },
  { "copying a tensor onto a part of itself", [[
      local x = ml.arange(1, 6)
      x[{ { 2, 6 } }]:copy_(x[{ { 1, 5 } }])
      return table.concat(x:tolist(), " ") ]], gives = "1 1 2 3 4 5" },
  { "out that is an input, transposed", [[
      local x = ml.tensor { { 1.0, 2 }, { 3, 4 } }
      ml.mm(x, x:t(), { out = x })
      return table.concat(x:view(-1):tolist(), " ") ]], gives = "5.0 11.0 11.0 25.0" },
  { "out of another dtype", [[ return ml.add(ml.ones(2), 1, { out = ml.zeros(2, { dtype = ml.int64 }) }) ]], fails = "add" },

  -- Empty, 0-d and strange shapes.
  { "every reduction of nothing", [[
      local x = ml.zeros(0)
      local out = {}
      for _, name in ipairs { "sum", "prod", "mean", "var", "std", "amax", "amin", "max", "min", "argmax", "argmin", "all", "any",
          "norm", "count_nonzero", "sort", "nonzero", "logsumexp", "cumprod" } do
        local ok, value = pcall(function() return x[name](x) end)
        out[#out + 1] = name .. (ok and "" or "!")
      end
      return table.concat(out, " ") ]],
    gives = "sum prod mean var std amax! amin! max! min! argmax! argmin! all any norm count_nonzero sort nonzero logsumexp! cumprod!" },
  { "values of reductions of nothing", [[
      local x = ml.zeros(0)
      return x:sum():item(), x:prod():item(), x:mean():item() ~= x:mean():item(), x:all():item(), x:any():item() ]],
    gives = "0.0, 1.0, true, true, false" },
  { "largest of nothing", [[
      local x = ml.zeros(0, 3)
      return refused("nothing to reduce", { "amax", "amin", "max", "min", "argmax", "argmin" }, function(name) return x[name](x, 1) end) ]],
    gives = "6 of 6" },
  { "largest along what is there", [[
      local x = ml.zeros(0, 3)
      return x:amax(2).shape, x:argmax(2).shape ]], gives = "(0,), (0,)" },
  { "products of nothing", [[
      return ml.zeros(0, 3):mm(ml.ones(3, 2)).shape, ml.ones(2, 0):mm(ml.ones(0, 3)):sum():item(),
        ml.zeros(2, 0):matmul(ml.zeros(0)).shape ]], gives = "(0, 2), 0.0, (2,)" },
  { "convolution of nothing", [[
      return F.conv2d(ml.zeros(0, 1, 5, 5), ml.ones(2, 1, 3, 3)).shape, (pcall(F.conv2d, ml.zeros(1, 1, 0, 5), ml.ones(2, 1, 3, 3))) ]],
    gives = "(0, 2, 3, 3), false" },
  { "convolution with hostile options", [[
      local x, w = ml.ones(1, 1, 5, 5), ml.ones(1, 1, 3, 3)
      return refused("conv2d: ", { { stride = 0 }, { stride = -1 }, { dilation = 0 }, { padding = -1 }, { groups = 0 }, { groups = -1 },
        { groups = 7 }, { stride = 1 << 62 }, { dilation = 1 << 62 }, { padding = 1 << 62 }, { stride = { 1, 1, 1 } }, { padding = 0/0 } },
        function(o) return F.conv2d(x, w, o) end) ]], gives = "12 of 12" },
  { "pooling with hostile options", [[
      local x = ml.ones(1, 1, 5, 5)
      return refused("max_pool2d: ", { 0, -1, 6, 1 << 62, 0/0, { 1, 1, 1 }, {} }, function(k) return F.max_pool2d(x, k) end) ]],
    gives = "7 of 7" },
  { "batch normalisation of one value", [[ return F.batch_norm(ml.ones(1, 3), ml.zeros(3), ml.ones(3), { training = true }) ]],
    fails = "batch_norm: more than one value per channel" },
  { "dropout with impossible probabilities", [[
      return refused("dropout: ", { -0.1, 1.1, 0/0, 1/0 }, function(p) return F.dropout(ml.ones(3), p) end) ]], gives = "4 of 4" },
  { "0-d tensors where dimensions are needed", [[
      local x = ml.tensor(1.0)
      return x:sum(1):item(), x:sum(-1):item(), (pcall(x.sum, x, 2)), (pcall(x.t, x)), (pcall(x.select, x, 1, 1)) ]],
    gives = "1.0, 1.0, false, true, false" },
  { "0-d tensors joined", [[ return ml.cat { ml.tensor(1), ml.tensor(2) } ]], fails = "cat" },
  { "no tensors joined", [[ return ml.cat {} ]], fails = "cat" },
  { "no tensors stacked", [[ return ml.stack {} ]], fails = "stack" },
  { "item of nothing and of several", [[ return refused("item", { ml.zeros(0), ml.zeros(2) }, function(x) return x:item() end) ]],
    gives = "2 of 2" },
  { "split into hostile sizes", [[
      local x = ml.ones(5)
      return refused("split", { 0, -1, { 1, 1 }, { 6, -1 }, { 1 << 62, 1 << 62, 5 }, {} }, function(s) return x:split(s) end) ]],
    gives = "6 of 6" },
  { "chunk into hostile counts", [[
      return refused("chunk", { 0, -1, 0/0 }, function(n) return ml.ones(5):chunk(n) end), #ml.ones(5):chunk(1 << 40) ]],
    gives = "3 of 3, 5" },
  { "topk of hostile counts", [[
      return refused("topk", { 0/0, -1, 6, math.maxinteger }, function(k) return ml.ones(5):topk(k) end) ]], gives = "4 of 4" },
  { "multinomial of hostile weights", [[
      return refused("multinomial", { { 0.0, 0.0 }, { -1.0, 2.0 }, { 0/0, 1.0 }, { 1/0, 1.0 } },
        function(w) return ml.multinomial(ml.tensor(w), 1) end) ]], gives = "4 of 4" },
  { "multinomial of more than there is", [[ return ml.multinomial(ml.ones(2), 3) ]], fails = "multinomial" },
  { "random numbers between the wrong ends", [[
      return refused("randint: ", { { 5, 1 }, { math.maxinteger, math.mininteger }, { 0/0, 1 }, { 1.5, 2 } },
        function(e) return ml.randint(e[1], e[2], { 3 }) end) ]], gives = "4 of 4" },
  { "random numbers between the ends of the integers", [[
      return ml.randint(math.mininteger, math.maxinteger, { 1000 }):lt(0):any():item() ]], gives = "true" },

  -- Numbers and dtypes.
  { "integer division by zero", [[ return ml.tensor { 1 } // 0 ]], fails = "zero" },
  { "integer remainder by zero", [[ return ml.tensor { 1 } % ml.tensor { 0 } ]], fails = "zero" },
  { "the smallest integer divided by -1", [[
      return (ml.tensor { math.mininteger } // -1):item() == math.mininteger, (ml.tensor { math.mininteger } % -1):item() ]],
    gives = "true, 0" },
  { "float division by zero", [[
      local x = ml.tensor { 1.0, -1.0, 0.0 } / 0
      return x[1]:item(), x[2]:item(), x[3]:item() ~= x[3]:item() ]], gives = "inf, -inf, true" },
  { "shifts by hostile counts", [[
      local x = ml.tensor { 1 }
      return (x << 64):item(), (x << 63):item() == math.mininteger, (x << -1):item(), (x >> 64):item(), (x << math.mininteger):item() ]],
    gives = "0, true, 0, 0, 0" },
  { "the absolute of the smallest integer", [[ return ml.tensor { math.mininteger }:abs():item() == math.mininteger ]], gives = "true" },
  { "integer powers", [[
      return (ml.tensor { 2 } ^ 63):item() == math.mininteger,
        table.concat(ml.tensor { 2, 1, -1 }:pow(ml.tensor { -1, -5, -3 }):tolist(), " ") ]], gives = "true, 0 1 -1" },
  { "integers that wrap", [[ return (ml.tensor { math.maxinteger } + 1):item() == math.mininteger ]], gives = "true" },
  { "numbers that a dtype cannot hold", [[
      local x = ml.zeros(1, { dtype = ml.uint8 })
      return refused("fill_: ", { 256, -1, 0/0, 1/0, 1e300, math.mininteger }, function(v) x:fill_(v) end) ]], gives = "6 of 6" },
  { "data that a dtype cannot hold", [[
      return refused("tensor", { 256, -1, 1e300, math.mininteger }, function(v) return ml.tensor({ v }, { dtype = ml.uint8 }) end) ]],
    gives = "4 of 4" },
  { "NaN to integers", [[
      local x = ml.tensor { 0/0, 1/0, -1/0, 1e300 }:long()
      return x.dtype, #x ]], gives = "int64, 4" },
  { "sorting NaN and -0.0", [[
      local x = ml.tensor { 0/0, 1.0, -0.0, 0.0, -1/0, 1/0 }:sort()
      return x[1]:item(), x[5]:item(), x[6]:item() ~= x[6]:item() ]], gives = "-inf, inf, true" },
  { "every op of two tensors with every pair of dtypes", [[
      local names = { "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
        "complex64", "complex128" }
      local crashed = 0
      for _, a in ipairs(names) do
        for _, b in ipairs(names) do
          local x, y = ml.ones(2, { dtype = ml[a] }), ml.ones(2, { dtype = ml[b] })
          for _, op in ipairs { "add", "sub", "mul", "div", "pow", "maximum", "eq", "lt", "bitwise_and", "atan2", "fmod",
              "floor_divide", "matmul", "where", "copy_", "add_", "cat", "lerp" } do
            local ok, message = pcall(function()
              if op == "where" then return ml.where(x, x, y) end
              if op == "cat" then return ml.cat { x, y } end
              if op == "lerp" then return x:lerp(y, 0.5) end
              return x[op](x, y)
            end)
            if not ok and not tostring(message):find(op:gsub("_$", "")) then crashed = message end
          end
        end
      end
      return crashed ]], gives = "0" },
  { "view of another dtype with sizes that do not fit", [[ return ml.ones(3, { dtype = ml.uint8 }):view(ml.float32) ]], fails = "view" },
  { "a dtype that nobody has", [[ return ml.zeros(2, { dtype = "float31" }) ]], fails = "float31" },
  { "a device that nobody has", [[ return ml.zeros(2, { device = "toaster" }) ]], fails = "toaster" },
  { "hostile names of devices", [[
      return refused("zeros: ", { "cuda:-1", "cuda:99999999999999999999", "cuda:x", "cpu:1", "", "cuda:", 7, ("c"):rep(100000) },
        function(d) return ml.zeros(2, { device = d }) end) ]], gives = "8 of 8" },
  { "backward of what has no gradient", [[ ml.ones(1):backward() ]], fails = "backward" },
  { "backward of several elements", [[ ml.ones{2, requires_grad = true}:backward() ]], fails = "backward" },
  { "backward with a gradient of another shape", [[ (ml.ones{2, requires_grad = true} * 2):backward(ml.ones(3)) ]], fails = "shape" },
  { "backward twice", [[
      local y = (ml.ones{2, requires_grad = true} ^ 2):sum()
      y:backward() y:backward() ]], fails = "retain_graph" },
  { "the gradient of what is not used", [[
      return ml.grad(ml.ones{1, requires_grad = true} * 2, ml.ones{1, requires_grad = true}) ]], fails = "grad" },
  { "in-place change of what the tape needs", [[
      local w = ml.ones{2, requires_grad = true}
      local y = w * 1
      local z = (y * y):sum()
      y:add_(1)
      z:backward() ]], fails = "add_" },
  { "set_num_threads with hostile counts", [[
      return refused("threads", { 0, -1, 0/0, 1 << 40, "x" }, ml.set_num_threads) ]], gives = "5 of 5" },
  { "seeds of every kind", [[
      return refused("manual_seed: ", { 0/0, 1/0, 1.5, "x", {} }, ml.manual_seed), ml.manual_seed(math.mininteger) ~= false ]], gives = "5 of 5, true" },
  { "a generator's state of rubbish", [[
      local g = ml.Generator()
      return refused("state", { ml.zeros(0), ml.zeros(16), "x", ml.zeros(3, { dtype = ml.uint8 }), ml.zeros(16, 16, { dtype = ml.uint8 }) },
        function(s) g:set_state(s) end) ]], gives = "5 of 5" },
}
