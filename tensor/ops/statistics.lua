-- tensor/ops/statistics.lua: quantiles, modes, covariances and histograms.

op { "mode(Tensor x, Dim dim=-1, bool keepdim=false) -> (Tensor values, Tensor indices)",
     out = true, kind = "composite", dtypes = "boolean+real",
     doc = [[The most frequent element along `dim`, the smallest of several, and the position (from 1) of
the last of them.]],
     sample = { "tensor({{3, 1, 3, 2}, {2, 1, 2, 1}})", "tensor({{3, 1, 2}, {3, 2, 2}, {1, 1, 2}}), 1, true",
                "randn(3, 4), 2" },
     torch = "with_positions(torch.mode(*args))" }

local interpolations = [[A quantile that falls between two elements is, by `interpolation`, "linear"
between them, the "lower", the "higher", the "nearest", or the "midpoint".]]

for _, pair in ipairs {
  { "quantile", "NaN where one is there" }, { "nanquantile", "NaN is passed over" },
} do
  local name, nan = pair[1], pair[2]
  op { name .. [[(Tensor x, Operand q, Dim? dim=nil, bool keepdim=false,
                string interpolation="linear") -> Tensor]],
       out = true, kind = "composite", autocast = { host = "float32" }, dtypes = "floating",
       doc = ([[The quantiles `q`, numbers from 0 to 1, of `x` (float32 or float64) along `dim`, or of
all elements; %s. With several in a 1-D tensor `q`, of the dtype of `x`, the result has a first
dimension for them. %s]]):format(nan, interpolations),
       sample = { "randn(3, 5), 0.3", "randn(3, 5), tensor({0.05, 0.3, 0.6, 0.9}), 2", "randn(3, 5), tensor({0.1, 0.7}), 1, true",
                  "randn(3, 4), 0.55, 2, false, \"lower\"", "randn(3, 4), 0.55, 2, false, \"higher\"",
                  "randn(3, 4), 0.55, 2, true, \"nearest\"", "randn(3, 4), tensor({0.2, 0.5}), nil, true, \"midpoint\"" },
       torch = ([[torch.%s(args[0], args[1], dim=args[2] if len(args) > 2 else None,
keepdim=args[3] if len(args) > 3 else False, interpolation=args[4] if len(args) > 4 else "linear")]]):format(name),
       check = { dtypes = "float32 and float64 only" } }
end

op { "cov(Tensor x, float correction=1, Tensor? fweights=nil, Tensor? aweights=nil) -> Tensor",
     kind = "composite", dtypes = "integral+floating+complex",
     doc = [[The covariances of the rows of `x`, `(variables, observations)`, or the variance of the 1-D
`x`: the products of distances from the means, summed and divided by count - `correction`.
`fweights`, integers, say how often each observation counts, `aweights` how much.]],
     sample = { "randn(3, 5)", "randn(5)", "randn(3, 5), 0", "randn(3, 5), 1, tensor({1, 2, 0, 3, 1}, {dtype = int64})",
                "randn(3, 5), 1, nil, rand(5)", "randn(3, 5), 0, tensor({1, 2, 0, 3, 1}, {dtype = int64}), rand(5)",
                "view_as_complex(randn(3, 4, 2))" },
     torch = [[torch.cov(args[0], correction=args[1] if len(args) > 1 else 1,
fweights=args[2] if len(args) > 2 else None, aweights=args[3] if len(args) > 3 else None)]],
     check = { dtypes = "the weights have dtypes of their own" } }

op { "corrcoef(Tensor x) -> Tensor",
     kind = "composite", dtypes = "integral+floating+complex",
     doc = [[Pearson's correlation coefficients of the rows of `x`, `(variables, observations)`: their
covariances divided by both standard deviations.]],
     sample = { "randn(3, 5)", "randn(5)", "view_as_complex(randn(3, 4, 2))" } }

op { "histogram_position(Tensor x, Scalar low, Scalar high, Scalar bins) -> Tensor",
     kind = "pointwise", dtypes = "floating", inplace = false, keeps_dtype = true, internal = true,
     torch = [[torch.where((args[0] >= args[1]) & (args[0] <= args[2]),
torch.clamp(torch.floor((args[0] - args[1]) * args[3] / (args[2] - args[1])) + 2, max=args[3] + 1),
torch.ones_like(args[0]))]],
     doc = [[Which of `bins` parts of equal width between `low` and `high` each element is in, as 2 to `bins`
+ 1, the end in the last; 1 for elements outside.]],
     sample = { "randn(3, 4), -0.5, 1.0, 5", "tensor({-1, -0.5, 1, 1.5, 0 / 0}), -0.5, 1.0, 3" } }

-- By the number of bins, and by their edges.
for _, form in ipairs {
  { "", "int bins, float[*] range={}",
    "`bins` parts of equal width between the two numbers of `range`, or between the smallest and the largest element",
    { "randn(30), 5, {-1, 1}", "randn(4, 5), 7", "tensor({1, 2, 1, 4.0}), 4, {0, 3}, tensor({1, 2, 4, 8.0})",
      "randn(30), 5, {-1, 1}, nil, true", "ones(3), 4" } },
  { "_at", "Tensor bins", "the parts whose edges `bins` holds in rising order",
    { "randn(30), tensor({-1, -0.5, 1.0, 1.5})", "tensor({1, 2, 1, 4.0}), tensor({0, 2, 3.0}), tensor({1, 2, 4, 8.0}), true" } },
} do
  op { ("histogram%s(Tensor x, %s, Tensor? weight=nil, bool density=false) -> (Tensor hist, Tensor bin_edges)")
         :format(form[1], form[2]),
       overload_of = form[1] ~= "" and "histogram" or nil, kind = "composite",
       differentiable = false, dtypes = "floating",
       doc = ([[How many elements of `x`, or the sum of the `weight` of those that, fall into each of %s. The last
part contains its upper end; elements outside are not counted. With `density` what the parts hold is
divided by their widths and by the sum of all. Gives also the edges, one more than the parts.]]):format(form[3]),
       sample = form[4], torch = "torch_histogram(args)" }
end

op { "histc(Tensor x, int bins=100, float min=0, float max=0) -> Tensor",
     out = true, kind = "composite", differentiable = false, dtypes = "floating",
     doc = [[How many elements of `x` fall into each of `bins` parts of equal width between `min` and
`max`; where these are equal, between the smallest and the largest element. The last part contains
its upper end; elements outside are not counted.]],
     sample = { "randn(30), 5, -1, 1", "randn(4, 5), 7", "tensor({1, 2, 1, 4.0, 4, 3}), 4, 1, 4", "ones(3), 4" } }
