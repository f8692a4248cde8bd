-- tensor/ops/random.lua: random fills and new tensors of random numbers. Numbers come from Philox 4x32-10 and depend on the seed
-- and the calls made before, not on the device or the number of threads. They come from `generator`
-- where one is given, else from the default one.

op { "uniform(Tensor! x, float from=0, float to=1, Generator? generator=nil) -> Tensor",
     kind = "update", clone = false, random = true, draws = "x.numel()", dtypes = "floating",
     grad = { x = "zero" },
     doc = [[Fills `x` with numbers drawn evenly from `from` to below `to`.]],
     sample = { "zeros(3, 4), -1, 1" }, check = { value = "random" } }

op { "normal(Tensor! x, float mean=0, float std=1, Generator? generator=nil) -> Tensor",
     kind = "update", clone = false, random = true, draws = "x.numel() * (is_complex(x.dtype()) ? 2 : 1)",
     dtypes = "floating+complex",
     grad = { x = "zero" },
     doc = [[Fills `x` with numbers of the normal distribution (Box and Muller, 1958). Both parts of a complex
number have `mean` and half of the variance each.]],
     sample = { "zeros(3, 4), 1, 2" }, check = { value = "random" } }

op { "exponential(Tensor! x, float lambda=1, Generator? generator=nil) -> Tensor",
     kind = "update", clone = false, random = true, draws = "x.numel()", dtypes = "floating",
     grad = { x = "zero" },
     doc = [[Fills `x` with numbers of the exponential distribution with rate `lambda`.]],
     sample = { "zeros(3, 4), 2" }, check = { value = "random" } }

op { "bernoulli_fill(Tensor! x, float p, Generator? generator=nil) -> Tensor",
     kind = "update", clone = false, internal = true, random = true, draws = "x.numel()", dtypes = "boolean+real",
     grad = { x = "zero" },
     doc = [[Sets each element to 1 with probability `p`, else to 0.]],
     sample = { "zeros(3, 4), 0.3" }, check = { value = "random" } }
op { "bernoulli_of(Tensor x, float? p=nil, Generator? generator=nil) -> Tensor",
     kind = "composite", differentiable = false, out = true, random = true, lua_name = "bernoulli", dtypes = "boolean+real",
     doc = [[1 with the probability that the element of `x` gives, or with probability `p` for all, else
0: a tensor like `x`.]],
     sample = { "rand(3, 4)", "zeros(3, 4), 0.3", "tensor({0.0, 1.0})" },
     check = { value = "random", dtypes = "integers are no probabilities" } }
op { "bernoulli(Tensor x, Operand p=0.5, Generator? generator=nil) -> Tensor",
     kind = "composite", inplace = true, random = true, func = false, method = false,
     mixed = true, dtypes = "boolean+real",
     doc = [[Sets each element to 1 with probability `p`, a number or a tensor that broadcasts to `x`, else
to 0.]],
     sample = { "zeros(3, 4), 0.3", "zeros(3, 4), rand(4)" },
     check = { value = "random", dtypes = "integers are no probabilities" } }

op { "random(Tensor! x, int? low=nil, int? high=nil, Generator? generator=nil) -> Tensor",
     kind = "update", clone = false, random = true, draws = "x.numel()", dtypes = "boolean+real",
     grad = { x = "zero" },
     doc = [[Fills `x` with integers from `low` to `high`, both included, as `math.random` draws them;
`random_(n)` draws from 1 to `n`, and `random_()` from 0 to the largest integer of the dtype, for a
floating one up to which it holds all. (PyTorch's leaves `high` out and `random_(n)` starts at 0.)]],
     sample = { "zeros(3, 4), 1, 6", "zeros(3, 4), 6", "zeros(3, 4)" }, check = { value = "random" } }

op { "cauchy(Tensor x, float median=0, float sigma=1, Generator? generator=nil) -> Tensor",
     kind = "composite", inplace = true, random = true, func = false, method = false, dtypes = "floating",
     doc = [[Fills `x` with numbers of the Cauchy distribution around `median` with the scale `sigma`.]],
     sample = { "zeros(3, 4), 1, 2" }, check = { value = "random" } }
op { "log_normal(Tensor x, float mean=1, float std=2, Generator? generator=nil) -> Tensor",
     kind = "composite", inplace = true, random = true, func = false, method = false, dtypes = "floating",
     doc = [[Fills `x` with numbers whose logarithms have the normal distribution of that `mean` and `std`.]],
     sample = { "zeros(3, 4), 0, 0.5" }, check = { value = "random" } }
op { "geometric(Tensor x, float p, Generator? generator=nil) -> Tensor",
     kind = "composite", inplace = true, random = true, func = false, method = false, dtypes = "real",
     doc = [[Fills `x` with numbers of the geometric distribution: how many trials it takes until one
succeeds that does so with probability `p`, above 0 and below 1.]],
     sample = { "zeros(3, 4), 0.3" }, check = { value = "random" } }

op { "normal_of(Operand mean, Operand std=1, Generator? generator=nil) -> Tensor",
     kind = "composite", differentiable = false, out = true, random = true, method = false, lua_name = "normal", dtypes = "floating",
     doc = [[Numbers of normal distributions whose means and standard deviations are tensors that broadcast,
or a number for one of the two.]],
     sample = { "randn(3, 4), rand(4)", "randn(3), 0.5", "2, rand(3)" }, check = { value = "random" } }
op { "normal_sized(float mean, float std, int[] size, Generator? generator=nil, Options options) -> Tensor",
     kind = "composite", random = true, gather = false, overload_of = "normal_of",
     doc = [[The same for numbers and the size of the result.]],
     sample = { "1, 2, {3, 4}" }, check = { value = "random" } }

op { "poisson_draw(Tensor rate, Generator? generator=nil) -> Tensor",
     kind = "structured", internal = true, random = true, draws = "2 * rate.numel()", dtypes = "floating",
     grad = { rate = "zero" },
     doc = [[`poisson` for rates that have been checked.]],
     sample = { "rand(3, 4) * 30" }, check = { value = "random", grad = "whole numbers jump" } }
op { "poisson(Tensor rate, Generator? generator=nil) -> Tensor",
     kind = "composite", differentiable = false, out = true, random = true, dtypes = "floating",
     doc = [[Numbers of Poisson distributions with the rates in `rate`, which are not negative: by counting
below 10 and from there by transformed rejection (Hormann, "The transformed rejection method for
generating Poisson random variables", 1993).]],
     sample = { "rand(3, 4) * 30", "tensor({0.0, 0.5, 1e6})" }, check = { value = "random" } }
op { "binomial_draw(Tensor count, Tensor prob, Generator? generator=nil) -> Tensor",
     kind = "structured", internal = true, random = true, draws = "2 * count.numel()", dtypes = "floating",
     grad = { count = "zero", prob = "zero" },
     doc = [[`binomial` for tensors of one shape that have been checked.]],
     sample = { "tensor({1.0, 5.0, 100.0}), rand(3)" }, check = { value = "random", grad = "whole numbers jump" } }
op { "binomial(Tensor count, Tensor prob, Generator? generator=nil) -> Tensor",
     kind = "composite", differentiable = false, out = true, random = true, dtypes = "floating",
     doc = [[How many of `count` trials succeed that do so with probability `prob`; the two broadcast. By
waiting times where few do, else by transformed rejection (Hormann, "The generation of binomial random
variates", 1993).]],
     sample = { "tensor({1.0, 5.0, 100.0}), rand(3)", "full({2, 3}, 50.0), tensor({0.0, 0.5, 1.0})" },
     check = { value = "random" } }

op { "standard_gamma(Tensor concentration, Generator? generator=nil) -> Tensor",
     kind = "structured", internal = true, random = true, draws = "2 * concentration.numel()", dtypes = "floating",
     grad = { concentration = "standard_gamma_grad_concentration(g, concentration, y)" },
     doc = [[Numbers of gamma distributions of rate 1 (Marsaglia and Tsang, "A simple method for generating
gamma variables", 2000), NaN where `concentration` is below 0. Their gradient says how each moves with its
concentration.]],
     sample = { "rand(3, 4) * 3 + 0.1" },
     check = { value = "random", grad = "each call draws others", gradgrad = "the gradient has none" } }

op { "dropout_mask(Tensor x, float p=0.5, Generator? generator=nil) -> Tensor",
     kind = "structured", random = true, draws = "x.numel()", dtypes = "floating",
     doc = [[A tensor like `x` that is 0 with probability `p` and `1 / (1 - p)` elsewhere: what dropout
multiplies with.]],
     sample = { "randn(3, 4), 0.5" }, check = { value = "random" } }

op { "random_order(Tensor keys) -> Tensor",
     vmap = "random_order", kind = "structured", internal = true, dtypes = "integral", steady = "keys",
     doc = [[The positions (from 1) that put a vector of keys in order, equal ones as they stand: `argsort`
for keys that are spread over all of int64.]],
     torch = "torch.argsort(args[0], stable=True) + 1",
     sample = { "randint(-5, 5, {9})", "zeros(300, { dtype = \"int64\" }):random_(math.mininteger, math.maxinteger)" },
     check = { dtypes = "the order depends on what fits the dtype" } }
op { "randperm(int n, DType? dtype=nil, Device? device=nil, Generator? generator=nil) -> Tensor",
     out = true, kind = "composite", random = true, makes = true,
     doc = [[The numbers 1 to `n` in random order, as positions: of int64 unless another dtype is named.]],
     sample = { "6" }, check = { value = "random" } }

op { [[multinomial(Tensor probs, int num_samples, bool replacement=false,
                   Generator? generator=nil) -> Tensor]],
     out = true, kind = "composite", differentiable = false, random = true, dtypes = "floating",
     doc = [[Positions (from 1) drawn with the given weights, which need not sum to 1: `probs` is `(n,)`
or `(rows, n)`, the result `(num_samples,)` or `(rows, num_samples)`.]],
     sample = { "tensor({0.2, 0.5, 0.3}), 2" }, check = { value = "random" } }

op { "rand(int[] size, Generator? generator=nil, Options options) -> Tensor", out = true, kind = "composite", random = true,
     doc = [[Numbers drawn evenly from 0 to below 1; of a complex dtype, both parts.]],
     sample = { "3, 4" }, check = { value = "random" } }

op { "randn(int[] size, Generator? generator=nil, Options options) -> Tensor", out = true, kind = "composite", random = true,
     doc = [[Numbers of the standard normal distribution. Those of a complex dtype have variance 1, half of
it in each part.]],
     sample = { "3, 4" }, check = { value = "random" } }

op { [[randint(int low, int high, int[] size, DType? dtype=nil, Device? device=nil,
               Generator? generator=nil) -> Tensor]],
     out = true, kind = "composite", random = true, makes = true, gather = false,
     doc = [[int64 (or `dtype`) numbers from `low` to `high`, both included, as `math.random` draws them.
(PyTorch's leaves `high` out.)]],
     sample = { "1, 6, {3, 4}" }, check = { value = "random" } }

op { [[randint_to(int high, int[] size, DType? dtype=nil, Device? device=nil,
                  Generator? generator=nil) -> Tensor]],
     kind = "composite", random = true, makes = true, gather = false, overload_of = "randint",
     doc = [[The same from 1 to `high`.]],
     sample = { "6, {3, 4}" }, check = { value = "random" } }

op { [[randint_like(Tensor x, int low, int? high=nil, DType? dtype=nil, Device? device=nil,
                     Generator? generator=nil, MemoryFormat? memory_format=nil) -> Tensor]],
     kind = "composite", differentiable = false, dtypes = "boolean+real", random = true, makes = true,
     doc = [[Integers from `low` to `high`, both included, or from 1 to `low` where it is the only one, with
the shape, dtype, device and order of strides of `x`.]],
     sample = { "zeros(3, 4), 1, 6", "zeros(3, 4), 6" }, check = { value = "random" } }

op { [[rand_like(Tensor x, DType? dtype=nil, Device? device=nil, Generator? generator=nil,
                 MemoryFormat? memory_format=nil) -> Tensor]],
     kind = "composite", differentiable = false, dtypes = "floating+complex", random = true, makes = true,
     doc = [[Numbers drawn evenly from 0 to below 1, with the shape, device and order of strides of `x`.]],
     sample = { "randn(3, 4)" }, check = { value = "random" } }

op { [[randn_like(Tensor x, DType? dtype=nil, Device? device=nil, Generator? generator=nil,
                  MemoryFormat? memory_format=nil) -> Tensor]],
     kind = "composite", differentiable = false, dtypes = "floating+complex", random = true, makes = true,
     doc = [[Numbers of the standard normal distribution, with the shape, device and order of strides of `x`.]],
     sample = { "randn(3, 4)" }, check = { value = "random" } }
