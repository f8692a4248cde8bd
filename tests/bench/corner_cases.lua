-- tests/bench/corner_cases.lua: calls whose time hangs on the shape of what they are given, as
-- corners.lua reads them: the inputs, the call here and PyTorch's; F holds the functions of networks.

local cases = {}

-- The sizes of a random tensor; with `below`, whole numbers from 0 up to it.
local function add(inputs, here, there)
  cases[#cases + 1] = { inputs = inputs, here = here, there = there }
end

-- --- the same calls of every shape --------------------------------------------------------------

local SHAPES = {
  { 2, 1000000 }, { 1000000, 2 }, { 1000000, 1 }, { 500000, 3 }, { 64, 16384 }, { 16384, 64 },
  { 1000, 7, 100 }, { 30, 30, 30, 30 },
}

-- Of x, along the first dimension and along the last: DIM is the dimension, from 1 here.
local ALONG = {
  { "x:sum(DIM)", "x.sum(DIM)" }, { "x:var(DIM)", "x.var(DIM)" }, { "x:prod(DIM)", "x.prod(DIM)" },
  { "x:amax(DIM)", "x.amax(DIM)" }, { "x:max(DIM)", "x.max(DIM)" }, { "x:argmax(DIM)", "x.argmax(DIM)" },
  { "x:gt(0):all(DIM)", "x.gt(0).all(DIM)" }, { "x:norm(2, DIM)", "x.norm(2, DIM)" },
  { "x:logsumexp(DIM)", "x.logsumexp(DIM)" }, { "x:softmax(DIM)", "x.softmax(DIM)" },
  { "x:log_softmax(DIM)", "x.log_softmax(DIM)" }, { "x:cumsum(DIM)", "x.cumsum(DIM)" },
  { "x:cummax(DIM)", "x.cummax(DIM)" }, { "x:sort(DIM)", "x.sort(DIM)" },
  { "x:topk(1, DIM)", "x.topk(1, DIM)" }, { "x:median(DIM)", "x.median(DIM)" },
  { "x:round():mode(DIM)", "x.round().mode(DIM)" }, { "ml.quantile(x, 0.5, DIM)", "torch.quantile(x, 0.5, DIM)" },
  { "x:flip(DIM)", "x.flip(DIM)" }, { "x:roll(1, DIM)", "x.roll(1, DIM)" }, { "x:diff(1, DIM)", "x.diff(1, DIM)" },
  { "ml.cat({ x, x }, DIM)", "torch.cat([x, x], DIM)" }, { "ml.stack({ x, x }, DIM)", "torch.stack([x, x], DIM)" },
  { "x + x:narrow(DIM, 1, 1)", "x + x.narrow(DIM, 0, 1)" },
  { "x:repeat_interleave(2, DIM)", "x.repeat_interleave(2, DIM)" },
  { "x:to 'float16':sum(DIM)", "x.half().sum(DIM)" }, { "x:to 'bfloat16':sum(DIM)", "x.bfloat16().sum(DIM)" },
}

local WHOLE = {
  { "x * 2", "x * 2" }, { "x:tril()", "x.tril()" }, { "ml.where(x:gt(0), x, -x)", "torch.where(x > 0, x, -x)" },
  { "x[x:gt(1)]", "x[x > 1]" }, { "x:gt(1):nonzero()", "x.gt(1).nonzero()" },
  { "x:transpose(1, -1):contiguous()", "x.transpose(0, -1).contiguous()" },
  { "ml.unique(x:round())", "torch.unique(x.round())" }, { "ml.var_mean(x, 1)", "torch.var_mean(x, 0)" },
  { "F.normalize(x, 2, -1)", "F.normalize(x, 2, -1)" }, { "F.pad(x, { 1, 1 })", "F.pad(x, (1, 1))" },
  { "F.layer_norm(x, { x:size(-1) })", "F.layer_norm(x, x.shape[-1:])" },
}

for _, shape in ipairs(SHAPES) do
  for _, case in ipairs(ALONG) do
    add({ x = shape }, case[1]:gsub("DIM", "1"), (case[2]:gsub("DIM", "0")))
    add({ x = shape }, case[1]:gsub("DIM", "-1"), (case[2]:gsub("DIM", "-1")))
  end
  for _, case in ipairs(WHOLE) do add({ x = shape }, case[1], case[2]) end
end

-- --- products -----------------------------------------------------------------------------------

add({ x = { 100000, 2, 2 } }, "ml.bmm(x, x)", "torch.bmm(x, x)")
add({ x = { 50000, 4, 4 } }, "ml.bmm(x, x)", "torch.bmm(x, x)")
add({ x = { 1000, 64, 64 }, y = { 1000, 64, 1 } }, "ml.bmm(x, y)", "torch.bmm(x, y)")
add({ x = { 2000, 1 }, y = { 1, 2000 } }, "ml.mm(x, y)", "torch.mm(x, y)")
add({ x = { 2, 500000 }, y = { 500000, 2 } }, "ml.mm(x, y)", "torch.mm(x, y)")
add({ x = { 500000, 3 }, y = { 3, 3 } }, "ml.mm(x, y)", "torch.mm(x, y)")
add({ x = { 100000, 16 }, w = { 1, 16 } }, "F.linear(x, w)", "F.linear(x, w)")
add({ x = { 4000, 4000 }, y = { 4000 } }, "ml.mv(x, y)", "torch.mv(x, y)")
add({ x = { 4000, 4000 }, y = { 4000 } }, "ml.mv(x:t(), y)", "torch.mv(x.t(), y)")
add({ x = { 1000, 3 } }, "ml.cdist(x, x)", "torch.cdist(x, x)")
add({ x = { 1000, 32, 32 } }, "ml.einsum('bii->b', x)", "torch.einsum('bii->b', x)")
add({ x = { 100000, 3 } }, "ml.linalg.cross(x, x)", "torch.linalg.cross(x, x)")
add({ x = { 10000, 64 } }, "F.cosine_similarity(x, x, -1)", "F.cosine_similarity(x, x, -1)")

-- --- matrices, transforms, random numbers -------------------------------------------------------

add({ x = { 1000, 8, 8 } }, "ml.linalg.inv(x)", "torch.linalg.inv(x)")
add({ x = { 1000, 8, 8 } }, "ml.linalg.det(x)", "torch.linalg.det(x)")
add({ x = { 500, 8, 8 } }, "ml.linalg.svd(x)", "torch.linalg.svd(x)")
add({ x = { 5000, 64 } }, "ml.linalg.qr(x)", "torch.linalg.qr(x)")
add({ x = { 10000, 64 } }, "ml.fft.rfft(x)", "torch.fft.rfft(x)")
add({ x = { 100, 1009 } }, "ml.fft.fft(x)", "torch.fft.fft(x)")
add({ x = { 1024, 512 } }, "ml.fft.fft(x, nil, 1)", "torch.fft.fft(x, dim=0)")
add({}, "ml.randperm(100000)", "torch.randperm(100000)")
add({ x = { 1000, 100 } }, "ml.multinomial(x:abs(), 10, true)", "torch.multinomial(x.abs(), 10, True)")
add({ x = { 1000, 100 } }, "ml.multinomial(x:abs(), 10)", "torch.multinomial(x.abs(), 10)")
add({}, "ml.triu_indices(1000, 1000)", "torch.triu_indices(1000, 1000)")

-- --- positions ----------------------------------------------------------------------------------

add({ x = { 1000000, 2 }, i = { 100000, below = 1000000 } }, "x:index_select(1, i + 1)", "x.index_select(0, i)")
add({ x = { 100, 100, 100 }, i = { 1000, below = 100 } }, "x[{ {}, i + 1 }]", "x[:, i]")
add({ w = { 1000, 1 }, i = { 100000, below = 1000 } }, "F.embedding(i + 1, w)", "F.embedding(i, w)")
add({ x = { 100000 }, i = { 100000, below = 10 } }, "ml.zeros(10):scatter_add(1, i + 1, x)",
  "torch.zeros(10).scatter_add(0, i, x)")
add({ x = { 100000, 4 }, i = { 100000, below = 10 } }, "ml.zeros(10, 4):index_add(1, i + 1, x)",
  "torch.zeros(10, 4).index_add(0, i, x)")
add({ i = { 100000, below = 10 } }, "F.one_hot(i + 1, 10)", "F.one_hot(i, 10)")
add({ i = { 1000000, below = 1000 } }, "i % 7", "i % 7")
add({ x = { 64, 50000 }, i = { 64, below = 50000 } }, "F.cross_entropy(x, i + 1)", "F.cross_entropy(x, i)")
add({ x = { 4, 21, 64, 64 }, i = { 4, 64, 64, below = 21 } }, "F.cross_entropy(x, i + 1)", "F.cross_entropy(x, i)")

-- --- elements -----------------------------------------------------------------------------------

for _, exponent in ipairs { "2", "3", "0.5", "-1", "2.5" } do
  add({ x = { 1000000 } }, "x:abs() ^ " .. exponent, "x.abs() ** " .. exponent)
end
add({ x = { 1000000 } }, "x:to 'int8' + 1", "x.to(torch.int8) + 1")
add({ x = { 1000000 } }, "x:unfold(1, 10, 5):sum(-1)", "x.unfold(0, 10, 5).sum(-1)")
add({ x = { 100, 100, 100 } }, "x + x:permute(3, 2, 1)", "x + x.permute(2, 1, 0)")
add({ x = { 1000, 1000 } }, "x:select(2, 1):fill_(1)", "x.select(1, 0).fill_(1)")
add({ x = { 100, 64, 100 }, w = { 64 } }, "F.prelu(x, w)", "F.prelu(x, w)")

-- --- images -------------------------------------------------------------------------------------

add({ x = { 32, 1, 64, 64 }, w = { 8, 1, 3, 3 } }, "F.conv2d(x, w)", "F.conv2d(x, w)")
add({ x = { 8, 64, 56, 56 }, w = { 64, 64, 1, 1 } }, "F.conv2d(x, w)", "F.conv2d(x, w)")
add({ x = { 8, 64, 56, 56 }, w = { 64, 1, 3, 3 } }, "F.conv2d(x, w, nil, 1, 1, 1, 64)",
  "F.conv2d(x, w, None, 1, 1, 1, 64)")
add({ x = { 1, 1, 512, 512 }, w = { 1, 1, 31, 31 } }, "F.conv2d(x, w)", "F.conv2d(x, w)")
add({ x = { 1, 1, 1000000 }, w = { 1, 1, 25 } }, "F.conv1d(x, w)", "F.conv1d(x, w)")
add({ x = { 4, 4, 256, 256 } }, "F.max_pool2d(x, 17, 1)", "F.max_pool2d(x, 17, 1)")
add({ x = { 64, 256, 14, 14 } }, "F.adaptive_avg_pool2d(x, { 1, 1 })", "F.adaptive_avg_pool2d(x, (1, 1))")
add({ x = { 500000, 2 } }, "F.batch_norm(x, nil, nil, nil, nil, true)",
  "F.batch_norm(x, None, None, None, None, True)")

return cases
