-- tensor/ops/random.lua: random fills and new tensors of random numbers. Numbers come from Philox 4x32-10 and depend on the seed
-- and the calls made before, not on the device or the number of threads. They come from `generator`
-- where one is given, else from the default one.

op { "uniform(Tensor! x, float from=0, float to=1, Generator? generator=nil) -> Tensor",
     kind = "update", clone = false, random = true, draws = "x.numel()", dtypes = "floating",
     grad = { x = "zero" },
     doc = "Fills `x` with samples of the continuous uniform distribution, in place.",
     args = { from = "the lower end, included", to = "the upper end, excluded" },
     shapes = "x (*) -> (*)",
     formula = "p(x) = 1 / (to - from)",
     example = "ml.manual_seed(1); ml.zeros(3):uniform_(-1, 1)",
     gives = [[
{0.7805, 0.7894, 0.1715}
Tensor (3,) float32]],
     sample = { "zeros(3, 4), -1, 1" }, check = { value = "random" } }

op { "normal(Tensor! x, float mean=0, float std=1, Generator? generator=nil) -> Tensor",
     kind = "update", clone = false, random = true, draws = "x.numel() * (is_complex(x.dtype()) ? 2 : 1)",
     dtypes = "floating+complex",
     grad = { x = "zero" },
     doc = [[Fills `x` with samples of the normal distribution, in place. Both parts of a complex number
have `mean` and half of the variance each.]],
     args = { mean = "the mean", std = "the standard deviation, not negative" },
     shapes = "x (*) -> (*)",
     formula = "p(x) = exp(-(x - mean)^2 / (2 * std^2)) / (std * sqrt(2 * pi))",
     errors = "a negative `std`",
     source = 'Box and Muller 1958, "A Note on the Generation of Random Normal Deviates"',
     example = "ml.manual_seed(1); ml.zeros(3):normal_()",
     gives = [[
{ 0.3804, -0.2963, -0.2492}
Tensor (3,) float32]],
     sample = { "zeros(3, 4), 1, 2" }, check = { value = "random" } }

op { "exponential(Tensor! x, float lambda=1, Generator? generator=nil) -> Tensor",
     kind = "update", clone = false, random = true, draws = "x.numel()", dtypes = "floating",
     grad = { x = "zero" },
     doc = "Fills `x` with samples of the exponential distribution, in place.",
     args = { lambda = "the rate, above 0" },
     shapes = "x (*) -> (*)",
     formula = "p(x) = lambda * exp(-lambda * x)",
     errors = "a rate that is not positive",
     example = "ml.manual_seed(1); ml.zeros(3):exponential_(2)",
     gives = [[
{0.0581, 0.0556, 0.2675}
Tensor (3,) float32]],
     sample = { "zeros(3, 4), 2" }, check = { value = "random" } }

op { "bernoulli_fill(Tensor! x, float p, Generator? generator=nil) -> Tensor",
     kind = "update", clone = false, internal = true, random = true, draws = "x.numel()", dtypes = "boolean+real",
     grad = { x = "zero" },
     doc = [[Sets each element to 1 with probability `p`, else to 0.]],
     sample = { "zeros(3, 4), 0.3" }, check = { value = "random" } }
op { "bernoulli_of(Tensor x, float? p=nil, Generator? generator=nil) -> Tensor",
     kind = "composite", differentiable = false, out = true, random = true, lua_name = "bernoulli", dtypes = "boolean+real",
     doc = [[Samples of the Bernoulli distribution: 1 with the probability that each element of `x`
gives, or with probability `p` for all, else 0.]],
     args = { x = "the probabilities, from 0 to 1", p = "one probability for all" },
     shapes = "x (*) -> (*)",
     example = "ml.manual_seed(1); ml.bernoulli(ml.tensor {0.0, 0.5, 1})",
     gives = [[
{0., 0., 1.}
Tensor (3,) float32]],
     sample = { "rand(3, 4)", "zeros(3, 4), 0.3", "tensor({0.0, 1.0})" },
     check = { value = "random", dtypes = "integers are no probabilities" } }
op { "bernoulli(Tensor x, Operand p=0.5, Generator? generator=nil) -> Tensor",
     kind = "composite", inplace = true, random = true, func = false, method = false,
     mixed = true, dtypes = "boolean+real",
     doc = "Fills `x` with samples of the Bernoulli distribution, in place: 1 with probability `p`, else 0.",
     args = { p = "a number or a tensor of probabilities, which broadcasts to `x`" },
     shapes = "x (*), p (*) -> (*)",
     example = "ml.manual_seed(3); ml.zeros(4):bernoulli_(0.5)",
     gives = [[
{0., 1., 0., 0.}
Tensor (4,) float32]],
     sample = { "zeros(3, 4), 0.3", "zeros(3, 4), rand(4)" },
     check = { value = "random", dtypes = "integers are no probabilities" } }

op { "random(Tensor! x, int? low=nil, int? high=nil, Generator? generator=nil) -> Tensor",
     kind = "update", clone = false, random = true, draws = "x.numel()", dtypes = "boolean+real",
     grad = { x = "zero" },
     doc = [[Fills `x` with integers of the discrete uniform distribution from `low` to `high`, both
included, in place, as `math.random` draws them; `random_(n)` draws from 1 to `n`, and `random_()` from
0 to the largest integer of the dtype, or of a floating one the largest up to which it holds all.
(PyTorch's leaves `high` out and `random_(n)` starts at 0.)]],
     args = { low = "the least integer; alone it is the largest, and the least is 1",
              high = "the largest integer" },
     shapes = "x (*) -> (*)",
     formula = "P(x) = 1 / (high - low + 1)",
     example = "ml.manual_seed(1); ml.zeros(4):random_(1, 6)",
     gives = [[
{5., 4., 1., 2.}
Tensor (4,) float32]],
     sample = { "zeros(3, 4), 1, 6", "zeros(3, 4), 6", "zeros(3, 4)" }, check = { value = "random" } }

op { "cauchy(Tensor x, float median=0, float sigma=1, Generator? generator=nil) -> Tensor",
     kind = "composite", inplace = true, random = true, func = false, method = false, dtypes = "floating",
     doc = "Fills `x` with samples of the Cauchy distribution, in place.",
     args = { median = "the centre", sigma = "the scale, above 0" },
     shapes = "x (*) -> (*)",
     formula = "p(x) = 1 / (pi * sigma * (1 + ((x - median) / sigma)^2))",
     example = "ml.manual_seed(1); ml.zeros(3):cauchy_()",
     gives = [[
{2.7847, 0.2760, 0.5999}
Tensor (3,) float32]],
     sample = { "zeros(3, 4), 1, 2" }, check = { value = "random" } }
op { "log_normal(Tensor x, float mean=1, float std=2, Generator? generator=nil) -> Tensor",
     kind = "composite", inplace = true, random = true, func = false, method = false, dtypes = "floating",
     doc = [[Fills `x` with samples of the log-normal distribution, in place: their logarithms are
normally distributed.]],
     args = { mean = "the mean of the logarithms", std = "the standard deviation of the logarithms, above 0" },
     shapes = "x (*) -> (*)",
     formula = "p(x) = exp(-(ln(x) - mean)^2 / (2 * std^2)) / (x * std * sqrt(2 * pi))",
     errors = "a standard deviation that is not positive",
     example = "ml.manual_seed(1); ml.zeros(3):log_normal_(0, 0.5)",
     gives = [[
{1.2095, 0.8623, 0.8828}
Tensor (3,) float32]],
     sample = { "zeros(3, 4), 0, 0.5" }, check = { value = "random" } }
op { "geometric(Tensor x, float p, Generator? generator=nil) -> Tensor",
     kind = "composite", inplace = true, random = true, func = false, method = false, dtypes = "real",
     doc = [[Fills `x` with samples of the geometric distribution, in place: the number of trials up to
the first success.]],
     args = { p = "the probability of a success, above 0 and below 1" },
     shapes = "x (*) -> (*)",
     formula = "P(k) = (1 - p)^(k - 1) * p",
     errors = "a `p` that is not between 0 and 1",
     example = "ml.manual_seed(1); ml.zeros(4):geometric_(0.3)",
     gives = [[
{1., 2., 2., 3.}
Tensor (4,) float32]],
     sample = { "zeros(3, 4), 0.3" }, check = { value = "random" } }

op { "normal_of(Operand mean, Operand std=1, Generator? generator=nil) -> Tensor",
     kind = "composite", differentiable = false, out = true, random = true, method = false, lua_name = "normal", dtypes = "floating",
     doc = "Samples of normal distributions with the given means and standard deviations, which broadcast.",
     args = { mean = "the means, or one for all", std = "the standard deviations, or one for all" },
     shapes = "mean (*), std (*) -> (*)",
     formula = "p(x) = exp(-(x - mean)^2 / (2 * std^2)) / (std * sqrt(2 * pi))",
     example = "ml.manual_seed(1); ml.normal(ml.tensor {0.0, 10, 100}, 1)",
     gives = [[
{ 0.3804,  9.7037, 99.7508}
Tensor (3,) float32]],
     sample = { "randn(3, 4), rand(4)", "randn(3), 0.5", "2, rand(3)" }, check = { value = "random" } }
op { "normal_sized(float mean, float std, int[] size, Generator? generator=nil, Options options) -> Tensor",
     kind = "composite", random = true, gather = false, overload_of = "normal_of",
     doc = "New tensor of samples of one normal distribution.",
     args = { mean = "the mean", std = "the standard deviation" },
     example = "ml.manual_seed(1); ml.normal(0, 1, {3})",
     gives = [[
{ 0.3804, -0.2963, -0.2492}
Tensor (3,) float32]],
     sample = { "1, 2, {3, 4}" }, check = { value = "random" } }

op { "poisson_draw(Tensor rate, Generator? generator=nil) -> Tensor",
     kind = "structured", internal = true, random = true, draws = "2 * rate.numel()", dtypes = "floating",
     grad = { rate = "zero" },
     doc = [[`poisson` for rates that have been checked.]],
     sample = { "rand(3, 4) * 30" }, check = { value = "random", grad = "whole numbers jump" } }
op { "poisson(Tensor rate, Generator? generator=nil) -> Tensor",
     kind = "composite", differentiable = false, out = true, random = true, dtypes = "floating",
     doc = [[Samples of Poisson distributions: by counting below a rate of 10 and from there by
transformed rejection.]],
     args = { rate = "the rates, not negative" },
     shapes = "rate (*) -> (*)",
     formula = "P(k) = rate^k * exp(-rate) / k!",
     source = 'Hörmann 1993, "The transformed rejection method for generating Poisson random variables"',
     example = "ml.manual_seed(1); ml.poisson(ml.tensor {0.0, 2, 100})",
     gives = [[
{ 0.,  2., 92.}
Tensor (3,) float32]],
     sample = { "rand(3, 4) * 30", "tensor({0.0, 0.5, 1e6})" }, check = { value = "random" } }
op { "binomial_draw(Tensor count, Tensor prob, Generator? generator=nil) -> Tensor",
     kind = "structured", internal = true, random = true, draws = "2 * count.numel()", dtypes = "floating",
     grad = { count = "zero", prob = "zero" },
     doc = [[`binomial` for tensors of one shape that have been checked.]],
     sample = { "tensor({1.0, 5.0, 100.0}), rand(3)" }, check = { value = "random", grad = "whole numbers jump" } }
op { "binomial(Tensor count, Tensor prob, Generator? generator=nil) -> Tensor",
     kind = "composite", differentiable = false, out = true, random = true, dtypes = "floating",
     doc = [[Samples of binomial distributions: how many of `count` trials succeed; the two broadcast.
By waiting times where few do, else by transformed rejection.]],
     args = { count = "the numbers of trials, not negative",
              prob = "the probabilities of a success, from 0 to 1" },
     shapes = "count (*), prob (*) -> (*)",
     formula = "P(k) = count! / (k! * (count - k)!) * prob^k * (1 - prob)^(count - k)",
     errors = "probabilities outside of 0 to 1",
     source = 'Hörmann 1993, "The generation of binomial random variates"',
     example = "ml.manual_seed(1); ml.binomial(ml.tensor {10.0, 100}, ml.tensor {0.5, 0.1})",
     gives = [[
{ 3., 12.}
Tensor (2,) float32]],
     sample = { "tensor({1.0, 5.0, 100.0}), rand(3)", "full({2, 3}, 50.0), tensor({0.0, 0.5, 1.0})" },
     check = { value = "random" } }

op { "standard_gamma(Tensor concentration, Generator? generator=nil) -> Tensor",
     kind = "structured", internal = true, random = true, draws = "2 * concentration.numel()", dtypes = "floating",
     grad = { concentration = "standard_gamma_grad_concentration(g, concentration, y)" },
     doc = [[Samples of gamma distributions of rate 1 (Marsaglia and Tsang, "A simple method for generating
gamma variables", 2000), NaN where `concentration` is below 0. Their gradient says how each moves with its
concentration.]],
     sample = { "rand(3, 4) * 3 + 0.1" },
     check = { value = "random", grad = "each call draws others", gradgrad = "the gradient has none" } }

op { "dropout_mask(Tensor x, float p=0.5, Generator? generator=nil) -> Tensor",
     kind = "structured", random = true, draws = "x.numel()", dtypes = "floating",
     doc = "Mask of dropout: a tensor like `x` that is 0 with probability `p` and `1 / (1 - p)` elsewhere.",
     args = { x = "the tensor whose properties are taken", p = "the probability of a 0, from 0 to 1" },
     shapes = "x (*) -> (*)",
     example = "ml.manual_seed(3); ml.dropout_mask(ml.zeros(4), 0.5)",
     gives = [[
{2., 0., 2., 2.}
Tensor (4,) float32]],
     sample = { "randn(3, 4), 0.5" }, check = { value = "random" } }

op { "random_states(Tensor x, int n, Generator? generator=nil) -> Tensor",
     kind = "structured", internal = true, random = true, draws = "x.numel() * n", dtypes = "all",
     doc = [[Where the `n` random numbers that belong to each element of `x` begin: the seed and the offset of
Philox, int64 of shape (*, 1, 2). A CUDA graph has others at each replay.]],
     sample = { "zeros(2, 3), 20" },
     check = { value = "random" } }

op { [[dropout_rows(Tensor states, float p, int first, int rows, int columns, int length,
                    DType dtype) -> Tensor]],
     vmap = "dims", kind = "structured", internal = true, dtypes = "integral",
     doc = [[Masks of dropout by `random_states`: of matrices whose rows have `length` columns, `rows` rows from the
0-based `first` on, and of each the first `columns`. Each row begins with a block of random numbers, so that any of
them can be drawn alone.]],
     sample = { "tensor({{{1, 2}}, {{3, 400}}}), 0.3, 1, 4, 5, 6, ml.float32" },
     check = { value = "random", dtypes = "states are of int64" } }

op { "random_order(Tensor keys) -> Tensor",
     vmap = "random_order", kind = "structured", internal = true, dtypes = "integral", steady = "keys",
     doc = [[The indices (from 1) that sort a vector of keys, equal ones as they stand: `argsort`
for keys that are spread over all of int64.]],
     torch = "torch.argsort(args[0], stable=True) + 1",
     sample = { "randint(-5, 5, {9})", "zeros(300, { dtype = \"int64\" }):random_(math.mininteger, math.maxinteger)" },
     check = { dtypes = "the order depends on what fits the dtype" } }
op { "randperm(int n, DType? dtype=nil, Device? device=nil, Generator? generator=nil) -> Tensor",
     out = true, kind = "composite", random = true, makes = true,
     doc = "Random permutation of the numbers 1 to `n`, int64 unless another dtype is given.",
     args = { n = "the largest number" },
     shapes = "-> (n)",
     example = "ml.manual_seed(1); ml.randperm(5)",
     gives = [[
{5, 4, 2, 3, 1}
Tensor (5,) int64]],
     sample = { "6" }, check = { value = "random" } }

op { [[multinomial(Tensor probs, int num_samples, bool replacement=false,
                   Generator? generator=nil) -> Tensor]],
     out = true, kind = "composite", differentiable = false, random = true, dtypes = "floating",
     doc = "Samples of indices (from 1) with given weights, which need not sum to 1.",
     args = { probs = "the weights, not negative, of one draw or as rows",
              num_samples = "how many indices are drawn of each row",
              replacement = "whether an index may come several times" },
     shapes = "probs (n) -> (num_samples)\nprobs (rows, n) -> (rows, num_samples)",
     errors = "weights that are negative, or all 0; without `replacement` more samples than weights above 0",
     example = "ml.manual_seed(1); ml.multinomial(ml.tensor {0.2, 0.5, 0.3}, 4, true)",
     gives = [[
{3, 2, 2, 2}
Tensor (4,) int64]],
     sample = { "tensor({0.2, 0.5, 0.3}), 2" }, check = { value = "random" } }

op { "rand(int[] size, Generator? generator=nil, Options options) -> Tensor", out = true, kind = "composite", random = true,
     doc = [[New tensor of samples of the uniform distribution from 0 to below 1; of a complex dtype, in
both parts.]],
     example = "ml.manual_seed(1); ml.rand(3)",
     gives = [[
{0.8903, 0.8947, 0.5857}
Tensor (3,) float32]],
     sample = { "3, 4" }, check = { value = "random" } }

op { "randn(int[] size, Generator? generator=nil, Options options) -> Tensor", out = true, kind = "composite", random = true,
     doc = [[New tensor of samples of the standard normal distribution. Those of a complex dtype have
variance 1, half of it in each part.]],
     formula = "p(x) = exp(-x^2 / 2) / sqrt(2 * pi)",
     example = "ml.manual_seed(1); ml.randn(3)",
     gives = [[
{ 0.3804, -0.2963, -0.2492}
Tensor (3,) float32]],
     sample = { "3, 4" }, check = { value = "random" } }

op { [[randint(int low, int high, int[] size, DType? dtype=nil, Device? device=nil,
               Generator? generator=nil) -> Tensor]],
     out = true, kind = "composite", random = true, makes = true, gather = false,
     doc = [[New tensor of integers of the discrete uniform distribution from `low` to `high`, both
included, as `math.random` draws them; `randint(n, size)` draws from 1 to `n`. int64 unless another
dtype is given. (PyTorch's leaves `high` out.)]],
     args = { low = "the least integer", high = "the largest integer" },
     example = "ml.manual_seed(1); ml.randint(1, 6, {4})",
     gives = [[
{5, 4, 1, 2}
Tensor (4,) int64]],
     sample = { "1, 6, {3, 4}" }, check = { value = "random" } }

op { [[randint_to(int high, int[] size, DType? dtype=nil, Device? device=nil,
                  Generator? generator=nil) -> Tensor]],
     kind = "composite", random = true, makes = true, gather = false, overload_of = "randint",
     doc = "New tensor of integers of the discrete uniform distribution from 1 to `high`, both included.",
     args = { high = "the largest integer" },
     example = "ml.manual_seed(1); ml.randint(6, {4})",
     gives = [[
{5, 4, 1, 2}
Tensor (4,) int64]],
     sample = { "6, {3, 4}" }, check = { value = "random" } }

op { [[randint_like(Tensor x, int low, int? high=nil, DType? dtype=nil, Device? device=nil,
                     Generator? generator=nil, MemoryFormat? memory_format=nil) -> Tensor]],
     kind = "composite", differentiable = false, dtypes = "boolean+real", random = true, makes = true,
     doc = [[New tensor of integers of the discrete uniform distribution from `low` to `high`, both
included, with the shape, dtype, device and stride order of `x`.]],
     args = { x = "the tensor whose properties are taken",
              low = "the least integer; alone it is the largest, and the least is 1",
              high = "the largest integer" },
     shapes = "x (*) -> (*)",
     example = "ml.manual_seed(1); ml.randint_like(ml.zeros(4), 1, 6)",
     gives = [[
{5., 4., 1., 2.}
Tensor (4,) float32]],
     sample = { "zeros(3, 4), 1, 6", "zeros(3, 4), 6" }, check = { value = "random" } }

op { [[rand_like(Tensor x, DType? dtype=nil, Device? device=nil, Generator? generator=nil,
                 MemoryFormat? memory_format=nil) -> Tensor]],
     kind = "composite", differentiable = false, dtypes = "floating+complex", random = true, makes = true,
     doc = [[New tensor of samples of the uniform distribution from 0 to below 1, with the shape, dtype,
device and stride order of `x`.]],
     args = { x = "the tensor whose properties are taken" },
     shapes = "x (*) -> (*)",
     example = "ml.manual_seed(1); ml.rand_like(ml.zeros(3))",
     gives = [[
{0.8903, 0.8947, 0.5857}
Tensor (3,) float32]],
     sample = { "randn(3, 4)" }, check = { value = "random" } }

op { [[randn_like(Tensor x, DType? dtype=nil, Device? device=nil, Generator? generator=nil,
                  MemoryFormat? memory_format=nil) -> Tensor]],
     kind = "composite", differentiable = false, dtypes = "floating+complex", random = true, makes = true,
     doc = [[New tensor of samples of the standard normal distribution, with the shape, dtype, device
and stride order of `x`.]],
     args = { x = "the tensor whose properties are taken" },
     shapes = "x (*) -> (*)",
     formula = "p(x) = exp(-x^2 / 2) / sqrt(2 * pi)",
     example = "ml.manual_seed(1); ml.randn_like(ml.zeros(3))",
     gives = [[
{ 0.3804, -0.2963, -0.2492}
Tensor (3,) float32]],
     sample = { "randn(3, 4)" }, check = { value = "random" } }
