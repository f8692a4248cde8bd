// cuda/kernels/random.cu: random fills: the numbers of tensor/functors/random_transforms.h in the
// order of the CPU. Element i takes lane i % 4 of block i / 4 (float64 and integers: half of block
// i / 2).
#include <algorithm>
#include <cmath>

#include "cuda/kernels/common/floats.cuh"
#include "cuda/kernels/common/geometry.cuh"
#include "cuda/runtime/device.h"
#include "cuda/runtime/graph.h"
#include "tensor/core/views.h"
#include "tensor/functors/random_counts.h"
#include "tensor/functors/random_transforms.h"
#include "tensor/kernels_random.h"
#include "tensor/kernels_sort.h"
#include "tensor/shapes/random.h"

namespace moonlet::cuda {

namespace {

template <class T>
__device__ __forceinline__ Words<16> words_of(const Computed<T>* numbers) {
  Floats<T> floats;
  MOONLET_UNROLL
  for (int k = 0; k < floats.kCount; ++k) floats.v[k] = numbers[k];
  return packed<T>(floats);
}

// A maker gives kNumbers values of type C from one block.
template <class Make>
__global__ void draw_kernel(int64_t count, DeviceRandom random, Make make, Array x) {
  const Philox rng = random.now();
  constexpr int kNumbers = Make::kNumbers;
  for (MOONLET_EACH(b, (count + kNumbers - 1) / kNumbers)) {
    typename Make::Number numbers[kNumbers];
    make(rng.block(static_cast<uint64_t>(b)), numbers);
    for (int k = 0; k < kNumbers && b * kNumbers + k < count; ++k)
      x.set<typename Make::Number>(b * kNumbers + k, numbers[k]);
  }
}

// The same in packs of 16 bytes of T.
template <class Make, class T>
__global__ void __launch_bounds__(kBlock)
    draw_packs_kernel(int64_t count, DeviceRandom random, Make make, char* y) {
  using Number = typename Make::Number;
  constexpr int kCount = 16 / sizeof(T), kBlocks = kCount / Make::kNumbers;
  const Philox rng = random.now();
  const int64_t packs = count / kCount;
  for (MOONLET_EACH(p, packs + 1)) {
    Number numbers[kCount];
    MOONLET_UNROLL
    for (int b = 0; b < kBlocks; ++b)
      make(rng.block(static_cast<uint64_t>(p * kBlocks + b)), numbers + b * Make::kNumbers);
    const Words<16> words = words_of<T>(numbers);
    if (p < packs) {
      store_words(y + p * 16, words);
      continue;
    }
    MOONLET_UNROLL
    for (int k = 0; k < kCount; ++k) {
      Words<sizeof(T)> one{};
      set_bits<sizeof(T)>(one, 0, bits_at<sizeof(T)>(words, k));
      if (packs * kCount + k < count) store_words(y + (packs * kCount + k) * sizeof(T), one);
    }
  }
}

struct FourFloats {
  using Number = float;
  static constexpr int kNumbers = 4;
};
struct Doubles {
  using Number = double;
  static constexpr int kNumbers = 2;
};

struct UniformFloat : FourFloats {
  float low, width, first, last;
  __device__ void operator()(const PhiloxBlock& b, float* out) const {
    for (int k = 0; k < 4; ++k) {
      float v = low + width * draws::unit_f32(b.v[k]);
      v = v > first ? v : first;
      out[k] = v < last ? v : last;
    }
  }
};
struct UniformDouble : Doubles {
  double from, to, last;
  __device__ void operator()(const PhiloxBlock& b, double* out) const {
    for (int k = 0; k < 2; ++k) {
      const double v = from + (to - from) * draws::unit_f64(b.v[2 * k], b.v[2 * k + 1]);
      out[k] = v < last ? v : last;
    }
  }
};

// Box and Muller (1958).
struct NormalFloat : FourFloats {
  float mean, std;
  __device__ void operator()(const PhiloxBlock& b, float* out) const {
    for (int k = 0; k < 4; k += 2) {
      float cosine, sine;
      draws::turn_f32(b.v[k + 1], &cosine, &sine);
      const float r = sqrtf(-2.0f * draws::log_f32(draws::unit_above_zero_f32(b.v[k])));
      out[k] = mean + std * (r * cosine);
      out[k + 1] = mean + std * (r * sine);
    }
  }
};
struct NormalDouble : Doubles {
  double mean, std;
  __device__ void operator()(const PhiloxBlock& b, double* out) const {
    const double r = ::sqrt(-2 * ::log(draws::unit_above_zero_f64(b.v[0], b.v[1])));
    const double angle = 6.283185307179586 * draws::unit_f64(b.v[2], b.v[3]);
    out[0] = mean + std * r * ::cos(angle);
    out[1] = mean + std * r * ::sin(angle);
  }
};

struct ExponentialFloat : FourFloats {
  float scale, least;
  __device__ void operator()(const PhiloxBlock& b, float* out) const {
    for (int k = 0; k < 4; ++k) {
      const float v = scale * draws::exponential_f32(b.v[k]);
      out[k] = v > least ? v : least;
    }
  }
};
struct ExponentialDouble : Doubles {
  double lambda, least;
  __device__ void operator()(const PhiloxBlock& b, double* out) const {
    for (int k = 0; k < 2; ++k) {
      const double v = draws::exponential_f64(b.v[2 * k], b.v[2 * k + 1]) / lambda;
      out[k] = v > least ? v : least;
    }
  }
};

// One of two values: `below` where draws::unit_f32 is under a limit.
struct Choice : FourFloats {
  draws::Under under;
  float below, above;
  Choice(double limit, float low, float high) : under(limit), below(low), above(high) {}
  __device__ void operator()(const PhiloxBlock& b, float* out) const {
    for (int k = 0; k < 4; ++k) out[k] = under(b.v[k]) ? below : above;
  }
};

struct Integers {
  using Number = int64_t;
  static constexpr int kNumbers = 2;
  uint64_t first, count;  // a count of 0 stands for all of int64
  __device__ void operator()(const PhiloxBlock& b, int64_t* out) const {
    for (int k = 0; k < 2; ++k) {
      const uint64_t bits = static_cast<uint64_t>(b.v[2 * k]) << 32 | b.v[2 * k + 1];
      out[k] = static_cast<int64_t>(first + (count != 0 ? bits % count : bits));
    }
  }
};

// The same in a floating tensor, where rounding must not lead out of the interval.
struct IntegersAsFloats {
  using Number = double;
  static constexpr int kNumbers = 2;
  Integers integers;
  double first, last;
  __device__ void operator()(const PhiloxBlock& b, double* out) const {
    int64_t drawn[kNumbers];
    integers(b, drawn);
    for (int k = 0; k < kNumbers; ++k) {
      double v = static_cast<double>(drawn[k]);
      v = v > first ? v : first;
      out[k] = v < last ? v : last;
    }
  }
};

// Draws into the packs of contiguous elements; false where they are none.
template <class Make>
bool draw_packs(const Call& call, Tensor& y, const DeviceRandom& numbers, const Make& make) {
  const auto run = [&]<class T>() {
    const int64_t threads = y.numel() * static_cast<int64_t>(sizeof(T)) / 16 + 1;
    MOONLET_LAUNCH((draw_packs_kernel<Make, T>), blocks_for(threads), kBlock, 0, call.stream(),
                   y.numel(), numbers, make, y.raw());
    return true;
  };
  if (!aligned_to(y.raw(), 16)) return false;
  if constexpr (std::is_same_v<typename Make::Number, float>) {
    if (y.dtype() == DType::Float32) return run.template operator()<float>();
    if (y.dtype() == DType::Float16) return run.template operator()<half>();
    if (y.dtype() == DType::BFloat16) return run.template operator()<bfloat16>();
  } else if constexpr (std::is_same_v<typename Make::Number, double>) {
    if (y.dtype() == DType::Float64) return run.template operator()<double>();
  } else {
    if (y.dtype() == DType::Int64) return run.template operator()<int64_t>();
  }
  return false;
}

template <class Make>
void draw(const char* op, Tensor& x, const Philox& rng, const Make& make) {
  if (x.numel() == 0) return;
  const Call call(x, op);
  const DeviceRandom numbers = device_random(call, rng);
  with_contiguous(x, [&](Tensor& y) {
    const int64_t count = y.numel();
    if (draw_packs(call, y, numbers, make)) return call.done();
    MOONLET_LAUNCH((draw_kernel<Make>), blocks_for(count / Make::kNumbers + 1), kBlock, 0,
                   call.stream(), count, numbers, make, array(y));
    call.done();
  });
}

}  // namespace

void uniform(Tensor& x, double from, double to, Philox rng) {
  const shapes::DrawBounds bounds = shapes::uniform_bounds(x, from, to);
  if (x.dtype() == DType::Float64) {
    UniformDouble make;
    make.from = from;
    make.to = to;
    make.last = bounds.last;
    return draw("uniform_", x, rng, make);
  }
  UniformFloat make;
  make.low = static_cast<float>(from);
  make.width = static_cast<float>(to - from);
  make.first = static_cast<float>(bounds.first);
  make.last = static_cast<float>(bounds.last);
  draw("uniform_", x, rng, make);
}

void normal(Tensor& x, double mean, double std, Philox rng) {
  if (is_complex(x.dtype())) {
    Tensor parts = views::view_as_real(x);
    return normal(parts, mean, std * std::sqrt(0.5), rng);
  }
  if (x.dtype() == DType::Float64) {
    NormalDouble make;
    make.mean = mean;
    make.std = std;
    return draw("normal_", x, rng, make);
  }
  NormalFloat make;
  make.mean = static_cast<float>(mean);
  make.std = static_cast<float>(std);
  draw("normal_", x, rng, make);
}

void exponential(Tensor& x, double lambda, Philox rng) {
  const double least = shapes::exponential_least(x, lambda);
  if (x.dtype() == DType::Float64) {
    ExponentialDouble make;
    make.lambda = lambda;
    make.least = least;
    return draw("exponential_", x, rng, make);
  }
  ExponentialFloat make;
  make.scale = static_cast<float>(1 / lambda);
  make.least = static_cast<float>(least);
  draw("exponential_", x, rng, make);
}

void bernoulli_fill(Tensor& x, double p, Philox rng) {
  draw("bernoulli_", x, rng, Choice(p, 1.0f, 0.0f));
}

void random(Tensor& x, std::optional<int64_t> low, std::optional<int64_t> high, Philox rng) {
  const shapes::IntegerRange range = shapes::integer_range(x, low, high);
  Integers make;
  make.first = static_cast<uint64_t>(range.first);
  make.count = range.count();
  if (!is_floating(x.dtype())) return draw("random_", x, rng, make);
  const shapes::DrawBounds bounds = shapes::integer_bounds(x, range);
  IntegersAsFloats floats;
  floats.integers = make;
  floats.first = bounds.first;
  floats.last = bounds.last;
  draw("random_", x, rng, floats);
}

namespace {
__global__ void poisson_kernel(int64_t count, DeviceRandom random, Array rate, Array y) {
  const Philox rng = random.now();
  for (MOONLET_EACH(i, count))
    y.set<double>(i, draws::poisson(rng, static_cast<uint64_t>(i), rate.get<double>(i)));
}
__global__ void gamma_kernel(int64_t count, DeviceRandom random, Array concentration, Array y) {
  const Philox rng = random.now();
  for (MOONLET_EACH(i, count)) {
    y.set<double>(
        i, draws::standard_gamma(rng, static_cast<uint64_t>(i), concentration.get<double>(i)));
  }
}
__global__ void binomial_kernel(int64_t count, DeviceRandom random, Array n, Array p, Array y) {
  const Philox rng = random.now();
  for (MOONLET_EACH(i, count)) {
    y.set<double>(
        i, draws::binomial(rng, static_cast<uint64_t>(i), n.get<double>(i), p.get<double>(i)));
  }
}
}  // namespace

void poisson_draw(const Tensor& rate, Philox rng, Tensor& y) {
  if (y.numel() == 0) return;
  const Call call(rate, "poisson");
  const Tensor rates = contiguous(rate);
  with_contiguous(y, [&](Tensor& out) {
    MOONLET_LAUNCH(poisson_kernel, blocks_for(out.numel()), kBlock, 0, call.stream(), out.numel(),
                   device_random(call, rng), array(rates), array(out));
  });
  call.done();
}

void standard_gamma(const Tensor& concentration, Philox rng, Tensor& y) {
  if (y.numel() == 0) return;
  const Call call(concentration, "standard_gamma");
  const Tensor concentrations = contiguous(concentration);
  with_contiguous(y, [&](Tensor& out) {
    MOONLET_LAUNCH(gamma_kernel, blocks_for(out.numel()), kBlock, 0, call.stream(), out.numel(),
                   device_random(call, rng), array(concentrations), array(out));
  });
  call.done();
}

void binomial_draw(const Tensor& count, const Tensor& prob, Philox rng, Tensor& y) {
  if (y.numel() == 0) return;
  const Call call(count, "binomial");
  const Tensor counts = contiguous(count), probs = contiguous(prob);
  with_contiguous(y, [&](Tensor& out) {
    MOONLET_LAUNCH(binomial_kernel, blocks_for(out.numel()), kBlock, 0, call.stream(), out.numel(),
                   device_random(call, rng), array(counts), array(probs), array(out));
  });
  call.done();
}

void random_order(const Tensor& keys, Tensor& y) {
  if (y.numel() == 0) return;
  const Call call(keys, "random_order");
  Tensor values = call.scratch(keys.sizes(), DType::Int64);
  sort(converted(keys, DType::Int64), 0, false, true, values, y);
}

void dropout_mask(const Tensor&, double p, Philox rng, Tensor& y) {
  draw("dropout_mask", y, rng, Choice(p, 0.0f, static_cast<float>(draws::dropout_scale(p))));
}

namespace {
__global__ void states_kernel(int64_t count, uint64_t blocks, DeviceRandom random, int64_t* y) {
  const Philox rng = random.now();
  for (MOONLET_EACH(i, count)) {
    y[2 * i] = static_cast<int64_t>(rng.seed);
    y[2 * i + 1] = static_cast<int64_t>(rng.offset + static_cast<uint64_t>(i) * blocks);
  }
}

// A thread for each block of the rows' columns that are wanted.
struct RowsOfMask {
  int64_t first, rows, columns, length;
};
template <class T>
__global__ void dropout_rows_kernel(int64_t count, RowsOfMask r, const int64_t* states,
                                    draws::Under dropped, Computed<T> kept, T* y) {
  const int64_t blocks = draws::row_blocks(r.columns);
  for (MOONLET_EACH(i, count)) {
    const int64_t row = i / blocks, block = i % blocks, entry = row / r.rows;
    const Philox rng{static_cast<uint64_t>(states[2 * entry]),
                     static_cast<uint64_t>(states[2 * entry + 1])};
    const int64_t start = (r.first + row % r.rows) * draws::row_blocks(r.length);
    const PhiloxBlock drawn = rng.block(static_cast<uint64_t>(start + block));
    MOONLET_UNROLL
    for (int k = 0; k < 4; ++k)
      if (block * 4 + k < r.columns)
        y[row * r.columns + block * 4 + k] =
            convert<T>(dropped(drawn.v[k]) ? Computed<T>(0) : kept);
  }
}
}  // namespace

void random_states(const Tensor& x, int64_t n, Philox rng, Tensor& y) {
  if (x.numel() == 0) return;
  const Call call(x, "random_states");
  with_contiguous(y, [&](Tensor& out) {
    MOONLET_LAUNCH(states_kernel, blocks_for(x.numel()), kBlock, 0, call.stream(), x.numel(),
                   static_cast<uint64_t>(draws::row_blocks(n)), device_random(call, rng),
                   out.elements<int64_t>());
  });
  call.done();
}

void dropout_rows(const Tensor& states, double p, int64_t first, int64_t rows, int64_t columns,
                  int64_t length, DType, Tensor& y) {
  if (y.numel() == 0) return;
  const Call call(states, "dropout_rows");
  const Tensor from = contiguous(states);
  with_contiguous(y, [&](Tensor& out) {
    visit<dtypes::floating>(out.dtype(), [&]<class T>() {
      const int64_t count = out.numel() / columns * draws::row_blocks(columns);
      MOONLET_LAUNCH((dropout_rows_kernel<T>), blocks_for(count), kBlock, 0, call.stream(), count,
                     RowsOfMask{first, rows, columns, length}, from.elements<int64_t>(),
                     draws::Under(p), static_cast<Computed<T>>(draws::dropout_scale(p)),
                     out.elements<T>());
    });
  });
  call.done();
}

}  // namespace moonlet::cuda
