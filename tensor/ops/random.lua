-- tensor/ops/random.lua: random fills and new tensors of random numbers. Numbers come from Philox 4x32-10 and depend on the seed
-- and the calls made before, not on the device or the number of threads. They come from `generator`
-- where one is given, else from the default one.

op { "uniform(Tensor! x, float from=0, float to=1, Generator? generator=nil) -> Tensor",
     kind = "update", clone = false, random = true, draws = "x.numel()", dtypes = "floating",
     grad = { x = "zero" },
     doc = [[Fills `x` with numbers drawn evenly from `from` to below `to`.]],
     sample = { "zeros(3, 4), -1, 1" }, check = { value = "random" } }

op { "normal(Tensor! x, float mean=0, float std=1, Generator? generator=nil) -> Tensor",
     kind = "update", clone = false, random = true, draws = "x.numel()", dtypes = "floating",
     grad = { x = "zero" },
     doc = [[Fills `x` with numbers of the normal distribution (Box and Muller, 1958).]],
     sample = { "zeros(3, 4), 1, 2" }, check = { value = "random" } }

op { "exponential(Tensor! x, float lambda=1, Generator? generator=nil) -> Tensor",
     kind = "update", clone = false, random = true, draws = "x.numel()", dtypes = "floating",
     grad = { x = "zero" },
     doc = [[Fills `x` with numbers of the exponential distribution with rate `lambda`.]],
     sample = { "zeros(3, 4), 2" }, check = { value = "random" } }

op { "bernoulli(Tensor! x, float p=0.5, Generator? generator=nil) -> Tensor",
     kind = "update", clone = false, random = true, draws = "x.numel()", dtypes = "boolean+real",
     grad = { x = "zero" },
     doc = [[Sets each element to 1 with probability `p`, else to 0.]],
     sample = { "zeros(3, 4), 0.3" }, check = { value = "random" } }

op { "random(Tensor! x, int low, int? high=nil, Generator? generator=nil) -> Tensor",
     kind = "update", clone = false, random = true, draws = "x.numel()", dtypes = "boolean+real",
     grad = { x = "zero" },
     doc = [[Fills `x` with integers from `low` to `high`, both included, as `math.random` draws them;
`random_(n)` draws from 1 to `n`. (PyTorch's leaves `high` out and `random_(n)` starts at 0.)]],
     sample = { "zeros(3, 4), 1, 6", "zeros(3, 4), 6" }, check = { value = "random" } }

op { "dropout_mask(Tensor x, float p=0.5, Generator? generator=nil) -> Tensor",
     kind = "structured", random = true, draws = "x.numel()", dtypes = "floating",
     doc = [[A tensor like `x` that is 0 with probability `p` and `1 / (1 - p)` elsewhere: what dropout
multiplies with.]],
     sample = { "randn(3, 4), 0.5" }, check = { value = "random" } }

op { "randperm(int n, Device? device=nil, Generator? generator=nil) -> Tensor",
     out = true, kind = "composite", random = true,
     doc = [[The numbers 1 to `n` in random order, as positions.]],
     sample = { "6" }, check = { value = "random" } }

op { [[multinomial(Tensor probs, int num_samples, bool replacement=false,
                   Generator? generator=nil) -> Tensor]],
     out = true, kind = "composite", random = true, dtypes = "floating",
     doc = [[Positions (from 1) drawn with the given weights, which need not sum to 1: `probs` is `(n,)`
or `(rows, n)`, the result `(num_samples,)` or `(rows, num_samples)`.]],
     sample = { "tensor({0.2, 0.5, 0.3}), 2" }, check = { value = "random" } }

op { "rand(int[] size, Generator? generator=nil, Options options) -> Tensor", out = true, kind = "composite", random = true,
     doc = [[Numbers drawn evenly from 0 to below 1.]],
     sample = { "3, 4" }, check = { value = "random" } }

op { "randn(int[] size, Generator? generator=nil, Options options) -> Tensor", out = true, kind = "composite", random = true,
     doc = [[Numbers of the standard normal distribution.]],
     sample = { "3, 4" }, check = { value = "random" } }

op { [[randint(int low, int high, int[] size, DType? dtype=nil, Device? device=nil,
               Generator? generator=nil) -> Tensor]],
     out = true, kind = "composite", random = true, gather = false,
     doc = [[int64 (or `dtype`) numbers from `low` to `high`, both included, as `math.random` draws them.
(PyTorch's leaves `high` out.)]],
     sample = { "1, 6, {3, 4}" }, check = { value = "random" } }

op { [[randint_to(int high, int[] size, DType? dtype=nil, Device? device=nil,
                  Generator? generator=nil) -> Tensor]],
     kind = "composite", random = true, gather = false, overload_of = "randint",
     doc = [[The same from 1 to `high`.]],
     sample = { "6, {3, 4}" }, check = { value = "random" } }

op { [[rand_like(Tensor x, DType? dtype=nil, Device? device=nil, Generator? generator=nil,
                 MemoryFormat? memory_format=nil) -> Tensor]],
     kind = "composite", dtypes = "floating", random = true, makes = true,
     doc = [[Numbers drawn evenly from 0 to below 1, with the shape, device and order of strides of `x`.]],
     sample = { "randn(3, 4)" }, check = { value = "random" } }

op { [[randn_like(Tensor x, DType? dtype=nil, Device? device=nil, Generator? generator=nil,
                  MemoryFormat? memory_format=nil) -> Tensor]],
     kind = "composite", dtypes = "floating", random = true, makes = true,
     doc = [[Numbers of the standard normal distribution, with the shape, device and order of strides of `x`.]],
     sample = { "randn(3, 4)" }, check = { value = "random" } }
