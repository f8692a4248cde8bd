-- tensor/ops/statistics.lua: quantiles, modes, covariances and histograms.

op { "mode(Tensor x, Dim dim=-1, bool keepdim=false) -> (Tensor values, Tensor indices)",
     out = true, kind = "composite", dtypes = "boolean+real",
     doc = [[Mode along a dimension: the most frequent element, the smallest of several, and the index
(from 1) of its last occurrence.]],
     shapes = "x (*, n, *) -> values (*, *), indices (*, *)",
     example = "ml.mode(ml.tensor {3, 1, 3, 2})", gives = "3  Tensor () int64	3  Tensor () int64",
     sample = { "tensor({{3, 1, 3, 2}, {2, 1, 2, 1}})", "tensor({{3, 1, 2}, {3, 2, 2}, {1, 1, 2}}), 1, true",
                "randn(3, 4), 2" },
     torch = "with_positions(torch.mode(*args))" }

local quantiles = {
  quantile = { [[Quantiles along a dimension, or of all elements; NaN where one is there. With a vector of
quantiles the result has a first dimension for them.]],
    args = { x = "the samples, float32 or float64",
             q = "a number from 0 to 1, or a vector of them in the dtype of `x`",
             dim = "the dimension; all elements unless given",
             interpolation = 'a quantile between two elements is "linear" between them, the "lower", the "higher", the "nearest" or the "midpoint"' },
    shapes = "x (*, n, *), q () -> (*, *)\nx (*, n, *), q (k) -> (k, *, *)",
    errors = "a `q` outside of 0 to 1",
    example = "ml.quantile(ml.tensor {1.0, 2, 3, 4}, 0.5)", gives = "2.5000  Tensor () float32" },
  nanquantile = { [[Quantiles along a dimension, or of all elements; NaN is passed over. With a vector of
quantiles the result has a first dimension for them.]],
    args = { x = "the samples, float32 or float64",
             q = "a number from 0 to 1, or a vector of them in the dtype of `x`",
             dim = "the dimension; all elements unless given",
             interpolation = 'a quantile between two elements is "linear" between them, the "lower", the "higher", the "nearest" or the "midpoint"' },
    shapes = "x (*, n, *), q () -> (*, *)\nx (*, n, *), q (k) -> (k, *, *)",
    example = "ml.nanquantile(ml.tensor {1, 0/0, 3}, 0.5)", gives = "2.  Tensor () float32" },
}

for _, name in ipairs { "quantile", "nanquantile" } do
  op { name .. [[(Tensor x, Operand q, Dim? dim=nil, bool keepdim=false,
                string interpolation="linear") -> Tensor]],
       out = true, kind = "composite", autocast = { host = "float32" }, dtypes = "floating",
       doc = quantiles[name],
       sample = { "randn(3, 5), 0.3", "randn(3, 5), tensor({0.05, 0.3, 0.6, 0.9}), 2", "randn(3, 5), tensor({0.1, 0.7}), 1, true",
                  "randn(3, 4), 0.55, 2, false, \"lower\"", "randn(3, 4), 0.55, 2, false, \"higher\"",
                  "randn(3, 4), 0.55, 2, true, \"nearest\"", "randn(3, 4), tensor({0.2, 0.5}), nil, true, \"midpoint\"" },
       torch = ([[torch.%s(args[0], args[1], dim=args[2] if len(args) > 2 else None,
keepdim=args[3] if len(args) > 3 else False, interpolation=args[4] if len(args) > 4 else "linear")]]):format(name),
       check = { dtypes = "float32 and float64 only" } }
end

op { "cov(Tensor x, float correction=1, Tensor? fweights=nil, Tensor? aweights=nil) -> Tensor",
     kind = "composite", dtypes = "integral+floating+complex",
     doc = "Covariance matrix of variables, or the variance of one.",
     args = { x = "a row for each variable, a column for each observation",
              correction = "what is subtracted from the number of observations: 1 for the unbiased estimate, 0 " ..
                "for that of the whole population",
              fweights = "how often each observation counts, integers",
              aweights = "how much each observation counts" },
     shapes = "x (n, m), fweights (m), aweights (m) -> (n, n)",
     formula = "y_ij = sum_k (x_ik - mean(x_i)) * conj(x_jk - mean(x_j)) / (m - correction)",
     example = "ml.cov(ml.tensor {{1.0, 2, 3}, {6, 4, 2}})",
     gives = [[
{{ 1., -2.},
 {-2.,  4.}}
Tensor (2, 2) float32]],
     sample = { "randn(3, 5)", "randn(5)", "randn(3, 5), 0", "randn(3, 5), 1, tensor({1, 2, 0, 3, 1}, {dtype = int64})",
                "randn(3, 5), 1, nil, rand(5)", "randn(3, 5), 0, tensor({1, 2, 0, 3, 1}, {dtype = int64}), rand(5)",
                "view_as_complex(randn(3, 4, 2))" },
     torch = [[torch.cov(args[0], correction=args[1] if len(args) > 1 else 1,
fweights=args[2] if len(args) > 2 else None, aweights=args[3] if len(args) > 3 else None)]],
     check = { dtypes = "the weights have dtypes of their own" } }

op { "corrcoef(Tensor x) -> Tensor",
     kind = "composite", dtypes = "integral+floating+complex",
     doc = "Pearson correlation coefficients of variables, from -1 to 1.",
     args = { x = "a row for each variable, a column for each observation" },
     shapes = "x (n, m) -> (n, n)",
     formula = "y_ij = cov_ij / sqrt(cov_ii * cov_jj)",
     example = "ml.corrcoef(ml.tensor {{1.0, 2, 3}, {6, 4, 3}})",
     gives = [[
{{ 1.0000, -0.9820},
 {-0.9820,  1.0000}}
Tensor (2, 2) float32]],
     sample = { "randn(3, 5)", "randn(5)", "view_as_complex(randn(3, 4, 2))" } }

op { "histogram_position(Tensor x, Scalar low, Scalar high, Scalar bins) -> Tensor",
     kind = "pointwise", dtypes = "floating", inplace = false, keeps_dtype = true, internal = true,
     torch = [[torch.where((args[0] >= args[1]) & (args[0] <= args[2]),
torch.clamp(torch.floor((args[0] - args[1]) * args[3] / (args[2] - args[1])) + 2, max=args[3] + 1),
torch.ones_like(args[0]))]],
     doc = [[The bin of each element among `bins` of equal width from `low` to `high`, as 2 to `bins` + 1, the
upper end in the last; 1 for elements outside.]],
     sample = { "randn(3, 4), -0.5, 1.0, 5", "tensor({-1, -0.5, 1, 1.5, 0 / 0}), -0.5, 1.0, 3" } }

local histograms = {
  histogram = { [[Histogram: how many elements, or the sum of their weights, fall into each of `bins` bins of
equal width, and the edges of the bins. The last bin contains its upper edge; elements outside are not
counted.]],
    args = { bins = "the number of bins, or a vector of edges in ascending order",
             range = "the lower and the upper end; the smallest and the largest element unless given",
             weight = "a weight for each element",
             density = "whether the counts are divided by the widths and by their sum, which makes them a " ..
               "probability density" },
    shapes = "x (*), weight (*) -> hist (bins), bin_edges (bins + 1)",
    example = "ml.histogram(ml.tensor {1.0, 2, 2.5, 4}, 3, {1, 4})",
    gives = [[
{1., 2., 1.}
Tensor (3,) float32
{1., 2., 3., 4.}
Tensor (4,) float32]] },
  histogram_at = { [[Histogram with the edges of the bins given: how many elements, or the sum of their weights,
fall into each.]],
    args = { bins = "the edges, in ascending order",
             weight = "a weight for each element",
             density = "whether the counts are divided by the widths and by their sum" },
    shapes = "x (*), bins (k), weight (*) -> hist (k - 1), bin_edges (k)",
    example = "ml.histogram(ml.tensor {1.0, 2, 2.5, 4}, ml.tensor {0.0, 2, 5})",
    gives = [[
{1., 3.}
Tensor (2,) float32
{0., 2., 5.}
Tensor (3,) float32]] },
}

-- By the number of bins, and by their edges.
for _, form in ipairs {
  { "", "int bins, float[*] range={}",
    { "randn(30), 5, {-1, 1}", "randn(4, 5), 7", "tensor({1, 2, 1, 4.0}), 4, {0, 3}, tensor({1, 2, 4, 8.0})",
      "randn(30), 5, {-1, 1}, nil, true", "ones(3), 4" } },
  { "_at", "Tensor bins",
    { "randn(30), tensor({-1, -0.5, 1.0, 1.5})", "tensor({1, 2, 1, 4.0}), tensor({0, 2, 3.0}), tensor({1, 2, 4, 8.0}), true" } },
} do
  op { ("histogram%s(Tensor x, %s, Tensor? weight=nil, bool density=false) -> (Tensor hist, Tensor bin_edges)")
         :format(form[1], form[2]),
       overload_of = form[1] ~= "" and "histogram" or nil, kind = "composite",
       differentiable = false, dtypes = "floating",
       doc = histograms["histogram" .. form[1]],
       sample = form[3], torch = "torch_histogram(args)" }
end

op { "histc(Tensor x, int bins=100, float min=0, float max=0) -> Tensor",
     out = true, kind = "composite", differentiable = false, dtypes = "floating",
     doc = [[Histogram: how many elements fall into each of `bins` bins of equal width. The last bin
contains its upper edge; elements outside are not counted.]],
     args = { bins = "the number of bins",
              min = "the lower end",
              max = "the upper end; where it equals `min`, the ends are the smallest and the largest element" },
     shapes = "x (*) -> (bins)",
     example = "ml.histc(ml.tensor {1.0, 2, 2.5, 4}, 3, 1, 4)",
     gives = [[
{1., 2., 1.}
Tensor (3,) float32]],
     sample = { "randn(30), 5, -1, 1", "randn(4, 5), 7", "tensor({1, 2, 1, 4.0, 4, 3}), 4, 1, 4", "ones(3), 4" } }
