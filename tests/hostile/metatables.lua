-- tests/hostile/metatables.lua: metatables exchanged, metamethods called with anything, and tables whose
-- metamethods work against the op that reads them.

return {
  -- Metatables that scripts try to exchange.
  { "setmetatable of a tensor", [[ setmetatable(ml.ones(1), {}) ]], fails = "table expected" },
  { "getmetatable of a tensor", [[ return type(getmetatable(ml.ones(1))) ]], gives = "string" },
  { "debug.setmetatable of a tensor", [[ debug.setmetatable(ml.ones(1), {}) ]],
    fails = "a userdata keeps its metatable" },
  { "debug.setmetatable of a tensor to nil", [[ debug.setmetatable(ml.ones(1), nil) ]],
    fails = "a userdata keeps its metatable" },
  { "debug.setmetatable of a storage", [[ debug.setmetatable(ml.ones(1):storage(), debug.getmetatable(ml.ones(1))) ]],
    fails = "a userdata keeps its metatable" },
  { "debug.setmetatable of a generator", [[ debug.setmetatable(ml.Generator(), debug.getmetatable(ml.ones(1))) ]],
    fails = "a userdata keeps its metatable" },
  { "debug.setmetatable of a file", [[
      local file <close> = assert(io.tmpfile())
      debug.setmetatable(file, debug.getmetatable(ml.ones(1))) ]],
    fails = "a userdata keeps its metatable" },
  { "debug.setmetatable of a no_grad guard", [[
      local guard <close> = ml.no_grad()
      debug.setmetatable(guard, debug.getmetatable(ml.ones(1))) ]],
    fails = "a userdata keeps its metatable" },
  { "a hook's handle, a table, with a tensor's metatable", [[
      local handle = ml.ones{1, requires_grad = true}:register_hook(print)
      debug.setmetatable(handle, debug.getmetatable(ml.ones(1)))
      handle:remove()
      return (pcall(ml.add, handle, 1)) ]], gives = "false" },
  { "light userdata with a tensor's metatable", [[
      local a = 1
      local id = debug.upvalueid(function() return a end, 1)
      debug.setmetatable(id, debug.getmetatable(ml.ones(1))) ]], fails = "a userdata keeps its metatable" },
  { "a table with a tensor's metatable", [[
      return ml.add(setmetatable({}, debug.getmetatable(ml.ones(1))), 1) ]], fails = "add.*got table" },
  { "a table with a tensor's metatable as self", [[
      return setmetatable({}, debug.getmetatable(ml.ones(1))):sum() ]],
    fails = "sum: argument 'x' is missing" },
  { "numbers with a tensor's metatable", [[
      debug.setmetatable(1, debug.getmetatable(ml.ones(1)))
      local ok, message = pcall(function() return (1)() end)
      local sum = (ml.ones(2) + 1):sum():item()
      debug.setmetatable(1, nil)
      return ok, sum ]], gives = "false, 4.0" },
  { "functions with a tensor's metatable", [[
      debug.setmetatable(print, debug.getmetatable(ml.ones(1)))
      local ok, message = pcall(function() return print + 1 end)
      debug.setmetatable(print, nil)
      return ok ]], gives = "false" },
  { "nil with a metatable that answers everything", [[
      debug.setmetatable(nil, { __index = function() return 1 end, __call = function() return 2 end })
      local ok, sum = pcall(function() return ml.ones(2, 3):sum(1):tolist()[3] end)
      debug.setmetatable(nil, nil)
      return ok, sum ]], gives = "true, 2.0" },
  { "strings without a metatable", [[
      local meta = getmetatable ""
      debug.setmetatable("", nil)
      local ok, message = pcall(ml.zeros, 2, "x")
      debug.setmetatable("", meta)
      return ok, message:find "zeros" ~= nil ]], gives = "false, true" },

  -- Metamethods called with anything.
  { "__gc of a tensor with no argument", [[ return debug.getmetatable(ml.ones(1)).__gc() ]], gives = "" },
  { "__gc of a tensor with a table", [[ return debug.getmetatable(ml.ones(1)).__gc({}) ]], gives = "" },
  { "__gc of a tensor with a file", [[
      local file <close> = assert(io.tmpfile())
      debug.getmetatable(ml.ones(1)).__gc(file)
      return io.type(file), file:write "x" == file ]], gives = "file, true" },
  { "__gc of a tensor twice", [[
      local x = ml.ones(3)
      local gc = debug.getmetatable(x).__gc
      gc(x) gc(x)
      return x:sum() ]], fails = "freed" },
  { "every metamethod of a tensor with every wrong self", [[
      local meta = debug.getmetatable(ml.ones(1))
      local wrong = { false, 1, "x", {}, print, coroutine.create(print), io.stdout, ml.ones(1):storage(), ml.Generator() }
      local strange = {}
      for name, f in pairs(meta) do
        if type(f) == "function" then
          for _, value in ipairs(wrong) do
            local ok, message = pcall(f, value, value)
            if not ok and type(message) ~= "string" then strange[#strange + 1] = name end
          end
          pcall(f)
          pcall(f, nil, nil, nil)
        end
      end
      return #strange ]], gives = "0" },
  { "every metamethod of a storage with every wrong self", [[
      local meta = debug.getmetatable(ml.ones(1):storage())
      local refused, called = 0, 0
      for name, f in pairs(meta) do
        if type(f) == "function" and name ~= "__eq" and name ~= "__gc" and name ~= "__close" then
          for _, value in ipairs { false, 1, "x", {}, print, io.stdout, ml.ones(1), ml.Generator() } do
            called = called + 1
            if not pcall(f, value, 1, 1) then refused = refused + 1 end
          end
        end
      end
      return called > 0 and called - refused ]], gives = "0" },
  { "every metamethod of a shape with every wrong self", [[
      local meta = debug.getmetatable(ml.ones(1).shape)
      local called, refused = 0, 0
      for name, f in pairs(meta) do
        if type(f) == "function" and name ~= "__eq" and name ~= "__concat" and name ~= "__pairs" then
          for _, value in ipairs { false, 1, "x", print, io.stdout, ml.ones(1), ml.Generator() } do
            called = called + 1
            if not pcall(f, value, 1, 1) then refused = refused + 1 end
          end
        end
      end
      return called > 0 and called - refused ]], gives = "0" },
  { "__close of a no_grad guard with a tensor", [[
      local guard <close> = ml.no_grad()
      debug.getmetatable(guard).__close(ml.ones(1)) ]],
    fails = "bad argument #1 to '__close'" },
  { "__close of a no_grad guard three times", [[
      local guard = ml.no_grad()
      local close = debug.getmetatable(guard).__close
      close(guard) close(guard) close(guard)
      return ml.is_grad_enabled() ]], gives = "true" },
  { "__gc of a no_grad guard that is active", [[
      local guard = ml.no_grad()
      debug.getmetatable(guard).__gc(guard)
      return ml.is_grad_enabled() ]], gives = "true" },
  { "guards closed in the wrong order", [[
      local first, second = ml.no_grad(), ml.enable_grad()
      debug.getmetatable(first).__close(first)
      debug.getmetatable(second).__close(second)
      return ml.is_grad_enabled() ]], gives = "true" },
  { "__close of an autocast guard with another kind", [[
      local guard <close> = ml.autocast()
      debug.getmetatable(guard).__close(ml.ones(1)) ]], fails = "bad argument #1 to '__close'" },
  { "__close of a hook's handle with a tensor", [[
      local handle = ml.ones{1, requires_grad = true}:register_hook(print)
      debug.getmetatable(handle).__close(ml.ones(1)) ]], fails = "has no field or method 'remove'" },
  { "methods of a tensor on a storage", [[ return ml.ones(1).sum(ml.ones(1):storage()) ]], fails = "sum.*tensor" },
  { "methods of a storage on a tensor", [[
      local s = ml.ones(1):storage()
      return s.resize(ml.ones(1), 3) ]], fails = "resize: a storage is expected, got Tensor" },
  { "methods of a generator on a tensor", [[ return ml.Generator().manual_seed(ml.ones(1), 3) ]],
    fails = "manual_seed: a generator is expected, got Tensor" },
  { "a tensor called", [[ return ml.ones(1)(1) ]], fails = "call" },
  { "a field set on a tensor", [[ ml.ones(1).foo = 1 ]], fails = "foo" },
  { "shape set on a tensor", [[ ml.ones(1).shape = {1} ]], fails = "shape" },
  { "grad set to a table", [[ ml.ones{1, requires_grad = true}.grad = {} ]], fails = "grad" },
  { "grad set to another shape", [[ ml.ones{1, requires_grad = true}.grad = ml.ones(2) ]], fails = "grad" },
  { "requires_grad set to a string", [[ ml.ones(1).requires_grad = "yes" ]], fails = "requires_grad" },
  { "a shape written to", [[ ml.ones(2).shape[1] = 7 ]], fails = "shape" },
  { "rawset of a shape", [[
      local x = ml.ones(2)
      local shape = x.shape
      rawset(shape, 1, 7)
      return shape[1], x.shape[1], #shape ]], gives = "7, 2, 1" },
  { "shapes with forged sizes", [[
      local shape = ml.ones(2).shape
      local key = next(shape)
      local function forged(bytes) return setmetatable({ [key] = bytes }, debug.getmetatable(shape)) end
      local huge = ("<i8"):pack(1 << 62):rep(5)
      return refused("zeros: ", { forged(("x"):rep(800)), forged(("<i8"):pack(-1)), forged(huge), forged(5) }, ml.zeros)
    ]], gives = "4 of 4" },
  { "a shape without its sizes", [[
      local shape = ml.ones(2).shape
      rawset(shape, next(shape), nil)
      return #shape ]], fails = "a shape is expected, got table" },

  -- Comparisons, joins and lengths.
  { "tensor < tensor", [[ return ml.ones(1) < ml.ones(1) ]], fails = "attempt to compare" },
  { "tensor == number", [[ return ml.ones(1) == 1 ]], gives = "false" },
  { "freed tensors compared", [[
      local a, b = ml.ones(1), ml.ones(1)
      a:free() b:free()
      return a == b, a == a ]], gives = "false, true" },
  { "a tensor joined to a table", [[ return ml.ones(1) .. {} ]], fails = "are joined, got table" },
  { "a large tensor joined to a string", [[ return "x" .. ml.ones(3) ]], fails = "element" },
  { "a freed tensor joined to a string", [[ local a = ml.ones(1) a:free() return "x" .. a ]], fails = "freed" },
  { "length of a freed tensor", [[ local a = ml.ones(1) a:free() return #a ]], fails = "freed" },
  { "length of a 0-d tensor", [[ return #ml.tensor(1) ]], fails = "a tensor of no dimensions has no length" },
  { "tostring of a freed tensor", [[ local a = ml.ones(1) a:free() return (tostring(a)) ]], gives = "Tensor (freed)" },
  { "pairs of a freed tensor", [[ local a = ml.ones(1) a:free() for _ in pairs(a) do end ]], fails = "freed" },
  { "freed while it is iterated", [[
      local x = ml.ones(5)
      for i in ipairs(x) do if i == 2 then x:free() end end ]], fails = "freed" },
  { "ipairs of a 0-d tensor", [[ for _ in ipairs(ml.tensor(1)) do end ]], fails = "a tensor of no dimensions cannot be indexed" },
  { "a tensor as a closed variable twice", [[
      local a = ml.ones(1)
      do local b <close> = a local c <close> = a end
      return a:sum() ]], fails = "freed" },

  -- Tables that lie, given as lists, sizes and options.
  { "__index that raises, as sizes", [[
      return ml.zeros(setmetatable({}, { __index = function() error "hostile" end, __len = function() return 2 end })) ]],
    fails = "hostile" },
  { "__len that raises, as a list of tensors", [[
      return ml.cat(setmetatable({}, { __len = function() error "hostile" end })) ]], fails = "hostile" },
  { "__len of 2^62, as a list of tensors", [[
      return ml.cat(setmetatable({}, { __len = function() return 1 << 62 end })) ]], fails = "cat" },
  { "__len negative, as a list of tensors", [[
      return ml.cat(setmetatable({}, { __len = function() return -5 end })) ]], fails = "cat" },
  { "__len that is a string, as a list of tensors", [[
      return ml.cat(setmetatable({}, { __len = function() return "x" end })) ]], fails = "length" },
  { "__len of 2^62, as sizes", [[
      return ml.zeros(setmetatable({}, { __len = function() return 1 << 62 end })).shape ]], fails = "zeros: argument 'size' must hold integers, got nil" },
  { "a list that frees its first tensor", [[
      local a, b = ml.ones(3), ml.ones(3)
      local list = setmetatable({}, { __len = function() return 2 end,
        __index = function(_, i) if i == 1 then return a end a:free() return b end })
      return ml.cat(list):sum():item(), (pcall(a.sum, a)) ]], gives = "6.0, false" },
  { "a list that frees the other argument", [[
      local x = ml.ones(3, 3)
      local index = setmetatable({}, { __len = function() return 1 end,
        __index = function(_, i) x:free() return 1 end })
      return x:sum(index) ]], fails = "sum: argument 'x': the tensor was freed while" },
  { "a list of positions is read without its metamethods", [[
      local x = ml.ones(3, 3)
      return x[setmetatable({}, { __len = function() return 1 end, __index = function() x:free() return 1 end })].shape
    ]], gives = "(3, 3)" },
  { "a list that grows while it is read", [[
      local list = setmetatable({}, { __len = function(t) return rawlen(t) + 1 end,
        __index = function(t, i) t[i] = ml.ones(1) return t[i] end })
      return ml.cat(list).shape ]], gives = "(1,)" },
  { "a list that yields", [[
      return coroutine.wrap(function()
        return ml.cat(setmetatable({}, { __len = function() return 1 end, __index = coroutine.yield }))
      end)() ]], fails = "yield" },
  { "a list that starts a backward of what is joined", [[
      local w = ml.ones{2, requires_grad = true}
      local list = setmetatable({}, { __len = function() return 2 end,
        __index = function() w:sum():backward() return w end })
      local y = ml.cat(list)
      y:sum():backward()
      return w.grad:sum():item() ]], gives = "8.0" },
  { "data whose rows change length", [[
      local n = 0
      local row = setmetatable({}, { __len = function() n = n + 1 return n end, __index = function() return 1 end })
      return ml.tensor { row, row, row }.shape, n ]], gives = "(3, 0), 0" },
  { "data that contains itself", [[ local t = {} t[1] = t return ml.tensor(t) ]], fails = "tensor: tables nest deeper than 12" },
  { "data nested ten thousand deep", [[
      local t = { 1 }
      for _ = 1, 10000 do t = { t } end
      return ml.tensor(t) ]], fails = "tensor: tables nest deeper than 12" },
  { "data of a million in one row, then a string", [[
      local t = {}
      for i = 1, 1000000 do t[i] = i end
      t[1000001] = "x"
      return ml.tensor(t) ]], fails = "tensor.*string" },
  { "options with __index that raises", [[
      return ml.zeros(2, setmetatable({}, { __index = function() error "hostile" end })).shape ]], gives = "(2,)" },
  { "options with __pairs that lies", [[
      return ml.zeros(2, setmetatable({}, { __pairs = function() return function() return "dtype", 7 end end })).shape ]],
    gives = "(2,)" },
  { "options with a tensor as key", [[ return ml.zeros { 2, [ml.ones(1)] = 3 } ]],
    fails = "zeros: an option's name must be a string" },
  { "options with NaN as value", [[ return ml.zeros { 2, dtype = 0/0 } ]], fails = "dtype" },
  { "an option that is itself", [[ local o = {} o.dtype = o return ml.zeros(2, o) ]], fails = "dtype" },
  { "options of nn with __index that raises", [[
      return nn.Linear(2, 3, setmetatable({}, { __index = function() error "hostile" end })) ]], fails = "Linear: 'bias' must be true or false, got a table" },
  { "a module with hostile __index among its children", [[
      local bad = setmetatable({}, { __index = function() error "hostile" end })
      return nn.Sequential(nn.Linear(1, 1), bad) ]], fails = "Sequential: layer 2: a module is expected, got a table" },
  { "a module that contains itself", [[
      local net = nn.Sequential(nn.Linear(1, 1))
      net.own = net
      return #net:parameters() ]], gives = "2" },
  { "parameters of a list that contains itself", [[
      local t = {} t[1] = t
      return optim.SGD(t, { lr = 1 }) ]], fails = "SGD: parameter 1 is a table" },
  { "a freed parameter in an optimiser", [[
      local w = ml.ones{1, requires_grad = true}
      local sgd = optim.SGD({ w }, { lr = 1 })
      w:sum():backward()
      w:free()
      sgd:step() ]], fails = "freed" },
  { "a freed gradient in an optimiser", [[
      local w = ml.ones{1, requires_grad = true}
      local sgd = optim.SGD({ w }, { lr = 1 })
      w:sum():backward()
      w.grad:free()
      sgd:step()
      return w:item() ]], gives = "0.0" },
    { "__tostring that raises, as an argument", [[
      return ml.zeros(setmetatable({}, { __tostring = function() error "hostile" end, __name = 7 }), 2) ]],
    fails = "zeros" },
  { "__name of a tensor's metatable changed", [[
      local meta = debug.getmetatable(ml.ones(1))
      local name = meta.__name
      meta.__name = setmetatable({}, { __tostring = function() error "hostile" end })
      local message = message(ml.add, io.stdout, 1)
      meta.__name = name
      return message:find "add" ~= nil ]], gives = "true" },
  { "__gc of the tensors' metatable taken away", [[
      local meta = debug.getmetatable(ml.ones(1))
      local gc = meta.__gc
      meta.__gc = nil
      local x = ml.ones(3)
      meta.__gc = gc
      x:free()
      x = nil
      collect()
      return ml.ones(3):sum():item() ]], gives = "3.0" },
  { "__index of the tensors' metatable replaced by a table", [[
      local meta = debug.getmetatable(ml.ones(1))
      local index = meta.__index
      meta.__index = {}
      local ok = pcall(function() return ml.ones(1):sum() end)
      meta.__index = index
      return ok, ml.ones(1):sum():item() ]], gives = "false, 1.0" },
  { "__mode put into the tensors' metatable", [[
      local meta = debug.getmetatable(ml.ones(1))
      meta.__mode = "kv"
      collect()
      meta.__mode = nil
      return ml.ones(2):sum():item() ]], gives = "2.0" },
  { "the registry", [[ return debug.getregistry() ]], fails = "the registry is not for scripts" },
  { "the library's own tables changed", [[
      local methods, index = ml._methods, debug.getmetatable(ml.ones(1)).__index
      local sum = methods.sum
      methods.sum = function() error "hostile" end
      local ok = pcall(function() return ml.ones(1):sum() end)
      methods.sum = sum
      return ok, ml.sum(ml.ones(2)):item(), ml.ones(2):sum():item() ]], gives = "false, 2.0, 2.0" },
  { "the item of tensors replaced, where an op calls it", [[
      local item = ml._methods.item
      ml._methods.item = function(x) x:free() return {} end
      local x = ml.ones(1)
      local ok = pcall(function() return "x" .. x end)
      ml._methods.item = item
      return ok, "x" .. ml.ones(1) ]], gives = "true, x1.0" },
  { "an error object with a hostile __tostring out of a hook", [[
      local w = ml.ones{1, requires_grad = true}
      local y = w * 2
      y:register_hook(function() error(setmetatable({}, { __tostring = function() error "again" end })) end)
      local ok, object = pcall(y.backward, y:sum())
      return ok, (pcall(tostring, object)), w.grad ]], gives = "false, false, nil" },
  { "__eq that frees, in a search of parameters", [[
      local w = ml.ones{1, requires_grad = true}
      local odd = setmetatable({}, { __eq = function() w:free() return true end })
      return odd == w, w:item() ]], gives = "false, 1.0" },
  { "__lt of proxies around tensors, sorted", [[
      local n = 0
      local proxy = { __lt = function(a, b) n = n + 1 return ml.rand(1):item() < 0.5 end }
      local list = {}
      for i = 1, 50 do list[i] = setmetatable({ ml.ones(1) }, proxy) end
      pcall(table.sort, list)
      return #list, n > 0 ]], gives = "50, true" },
  { "table functions on a tensor", [[ table.insert(ml.ones(3), 1) ]], fails = "index 4 is out of range" },
  { "table.unpack of a tensor", [[ return select("#", table.unpack(ml.ones(3))) ]], gives = "3" },
  { "table.concat of a tensor", [[ return table.concat(ml.ones(3), ",") ]], fails = "invalid value %(userdata%) at index 1" },
  { "next on a tensor", [[ return next(ml.ones(3)) ]], fails = "table expected" },
  { "string.format %d of a tensor", [[ return ("%d"):format(ml.ones(1)) ]], fails = ":item%(%)" },
  { "a tensor as a for loop's limit", [[ for i = 1, ml.ones(1) do end ]], fails = "'for' limit" },
}
