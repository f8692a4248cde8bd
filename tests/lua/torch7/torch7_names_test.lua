-- tests/lua/torch7/torch7_names_test.lua: the names that Torch7 has in `torch` and as methods of tensors: all are
-- there, but for those that are missing for a reason.

package.path = (arg[0]:match("^(.*)/") or ".") .. "/../?.lua;" .. package.path
local harness = require "harness"
local torch = require "torch"
local test, expect = harness.test, harness.expect

local FUNCTIONS = [[
  CmdLine DiskFile Generator MemoryFile PipeFile Storage Tensor TestSuite Tester Timer abs acos add addbmm
  addcdiv addcmul addmm addmv addr all any asin atan atan2 baddbmm bernoulli bhistc bitand bitor bitxor
  bmm cat cauchy cbitand cbitor cbitxor cdata cdiv ceil cfmod chunk cinv clamp class clshift cmax cmin
  cmod cmul conv2 conv3 cos cosh cpow cremainder cross crshift csub cumprod cumsum data deserialize
  deserializeFromStorage diag dist div dot eig eq equal exp expand expandAs exponential eye factory fill
  floor fmod frac gather ge gels geometric geqrf ger gesv getRNGState getconstructortable
  getdefaulttensortype getenv getmetatable getnumcores getnumthreads gt histc include initialSeed inverse
  isStorage isTensor isTypeOf isatty isequal kthvalue le lerp linspace load loadobj log log1p logNormal
  logspace lshift lt manualSeed match max mean median metatype min mm mod mode mul multinomial
  multinomialAlias multinomialAliasSetup multinomialAliasSetup_ multinomialAlias_ mv ne neg newmetatable
  nonzero norm normal numel ones orgqr ormqr packageLuaPath permute pointer potrf potri potrs pow prod
  pstrf pushudata qr rand randn random randperm range remainder renorm repeatTensor reshape round rshift
  rsqrt save saveobj scatter seed serialize serializeToStorage setRNGState setdefaulttensortype setenv
  setheaptracking setmetatable setnumthreads sigmoid sign sin sinh sort split sqrt squeeze std sum svd
  symeig tan tanh tic toc topk totable trace tril triu trtrs trunc type typename uniform
  updateerrorhandlers updatethreadlocals var version view viewAs xcorr2 xcorr3 zero zeros
]]

local METHODS = [[
  __add__ __div__ __index__ __len__ __mod__ __mul__ __newindex__ __sub__ __tostring__ __unm__ abs acos add
  addbmm addcdiv addcmul addmm addmv addr all any apply asin atan atan2 baddbmm bernoulli bhistc bitand
  bitor bitxor bmm byte cat cauchy cbitand cbitor cbitxor cdiv ceil cfmod char chunk cinv clamp clone
  clshift cmax cmin cmod cmul contiguous conv2 conv3 copy cos cosh cpow cremainder cross crshift csub
  cumprod cumsum diag dim dist div dot double elementSize eq equal exp expand expandAs exponential eye
  fill float floor fmod frac free gather ge geometric ger gt half histc index indexAdd indexCopy indexFill
  int isContiguous isSameSizeAs isSetTo isSize kthvalue le lerp linspace log log1p logNormal logspace long
  lshift lt map map2 maskedCopy maskedFill maskedSelect match max mean median min mm mod mode mul
  multinomial multinomialAliasSetup_ multinomialAlias_ mv nDimension nElement narrow ne neg nonzero norm
  normal numel ones permute pow prod rand randn random randperm range read real remainder renorm
  repeatTensor reshape resize resizeAs retain round rshift rsqrt scatter scatterAdd select set short
  sigmoid sign sin sinh size sort split sqrt squeeze std storage storageOffset stride sub sum t tan tanh
  topk totable trace transpose tril triu trunc type typeAs unfold uniform var view viewAs write xcorr2
  xcorr3 zero zeros
]]

-- Names that are missing, and why.
local MISSING = {
  cdata = "a pointer for LuaJIT's FFI, which Lua 5.4 has not",
  data = "a pointer for LuaJIT's FFI, which Lua 5.4 has not",
  pushudata = "makes an object of an address, which no script may name",
  multinomialAliasSetup_ = "a part of multinomialAliasSetup, which does it itself",
  multinomialAlias_ = "a part of multinomialAlias, which does it itself",
  __index__ = "x[key] is the class's own, which scripts cannot replace",
  __newindex__ = "x[key] = v is the class's own, which scripts cannot replace",
}

-- How many names there are and how many of them are missing; all others are found by `has`.
local function count(names, has)
  local total, missing = 0, 0
  for name in names:gmatch "%S+" do
    total = total + 1
    local found = has(name) ~= nil
    if not found then missing = missing + 1 end
    expect.equal({ name, found }, { name, MISSING[name] == nil })
  end
  return { total, missing }
end

test("functions", function()
  expect.equal(count(FUNCTIONS, function(name) return torch[name] end), { 214, 5 })
end)

test("methods", function()
  local double, byte = torch.DoubleTensor(), torch.ByteTensor()
  expect.equal(count(METHODS, function(name)
    if double[name] == nil then return byte[name] end
    return double[name]
  end), { 201, 4 })
end)

harness.run()
