// tensor/cpu/random/random.cpp: random fills. Element i takes lane i % 4 of block i / 4 (float64
// and integers: half of block i / 2), so the numbers do not depend on how threads share the work.
#include <cmath>

#include "tensor/core/views.h"
#include "tensor/cpu/common/contiguous.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/random/random.h"
#include "tensor/functors/random_counts.h"
#include "tensor/functors/random_transforms.h"
#include "tensor/shapes/random.h"

namespace moonlet::cpu {

namespace {

template <class T>
T narrow(double v) {
  if constexpr (is_reduced_floating_v<T>)
    return T(float(v));
  else
    return static_cast<T>(v);
}

// Blocks that are drawn at once, by lane.
constexpr int kBatch = bits::kBatch;
using bits::Batch;
using bits::draw;

// Calls make(batch, numbers) for each batch of 4 x kBatch floats and stores them in order.
template <class T, class Make>
void fill_f32(T* out, int64_t n, const Philox& rng, Make&& make) {
  constexpr int64_t kPer = 4 * kBatch;
  parallel_for((n + kPer - 1) / kPer, 128, [&](int64_t begin, int64_t end) {
    Batch drawn;
    float numbers[4][kBatch];
    for (int64_t b = begin; b < end; ++b) {
      draw(rng, static_cast<uint64_t>(b) * kBatch, drawn);
      make(drawn, numbers);
      const int64_t at = b * kPer, count = std::min(kPer, n - at);
      if (count == kPer) {
        for (int i = 0; i < kBatch; ++i) {
          for (int lane = 0; lane < 4; ++lane) out[at + 4 * i + lane] = T(numbers[lane][i]);
        }
      } else {
        for (int64_t i = 0; i < count; ++i) out[at + i] = T(numbers[i % 4][i / 4]);
      }
    }
  });
}

// Calls make(block) -> two numbers for each block.
template <class T, class Make>
void fill_pairs(T* out, int64_t n, const Philox& rng, Make&& make) {
  constexpr int64_t kPer = 2 * kBatch;
  parallel_for((n + kPer - 1) / kPer, 256, [&](int64_t begin, int64_t end) {
    Batch drawn;
    T pairs[kBatch][2];
    for (int64_t b = begin; b < end; ++b) {
      draw(rng, static_cast<uint64_t>(b) * kBatch, drawn);
      const int64_t count = std::min(kPer, n - b * kPer);
      for (int64_t i = 0; i < (count + 1) / 2; ++i)
        make(PhiloxBlock{{drawn.v[0][i], drawn.v[1][i], drawn.v[2][i], drawn.v[3][i]}}, pairs[i]);
      std::copy_n(&pairs[0][0], count, out + b * kPer);
    }
  });
}

// Fills floating x: `single` makes a float32 batch, `pair` two doubles of a block.
template <class Single, class Pair>
void fill_floating(Tensor& x, const Philox& rng, Single&& single, Pair&& pair) {
  with_contiguous(x, [&](Tensor& y) {
    visit<dtypes::floating>(y.dtype(), [&]<class T>() {
      if constexpr (std::is_same_v<T, double>)
        fill_pairs(y.elements<double>(), y.numel(), rng, pair);
      else
        fill_f32(y.elements<T>(), y.numel(), rng, single);
    });
  });
}

}  // namespace

void uniform(Tensor& x, double from, double to, Philox rng) {
  const shapes::DrawBounds bounds = shapes::uniform_bounds(x, from, to);
  const float low = static_cast<float>(from), width = static_cast<float>(to - from);
  const float first = static_cast<float>(bounds.first), last = static_cast<float>(bounds.last);
  fill_floating(
      x, rng,
      [=](const Batch& drawn, float(&out)[4][kBatch]) {
        for (int k = 0; k < 4; ++k) {
          for (int i = 0; i < kBatch; ++i) {
            float v = low + width * draws::unit_f32(drawn.v[k][i]);
            v = v > first ? v : first;
            out[k][i] = v < last ? v : last;
          }
        }
      },
      [=](const PhiloxBlock& b, double* out) {
        for (int k = 0; k < 2; ++k) {
          const double v = from + (to - from) * draws::unit_f64(b.v[2 * k], b.v[2 * k + 1]);
          out[k] = v < bounds.last ? v : bounds.last;
        }
      });
}

void normal(Tensor& x, double mean, double std, Philox rng) {
  if (is_complex(x.dtype())) {
    Tensor parts = views::view_as_real(x);
    return normal(parts, mean, std * std::sqrt(0.5), rng);
  }
  const float m = static_cast<float>(mean), s = static_cast<float>(std);
  fill_floating(
      x, rng,
      [=](const Batch& drawn, float(&out)[4][kBatch]) {
        for (int k = 0; k < 4; k += 2) {
          for (int i = 0; i < kBatch; ++i) {
            float cosine, sine;
            draws::turn_f32(drawn.v[k + 1][i], &cosine, &sine);
            const float u = draws::unit_above_zero_f32(drawn.v[k][i]);
            const float r = std::sqrt(-2.0f * draws::log_f32(u));
            out[k][i] = m + s * (r * cosine);
            out[k + 1][i] = m + s * (r * sine);
          }
        }
      },
      [=](const PhiloxBlock& b, double* out) {
        const double r = std::sqrt(-2 * std::log(draws::unit_above_zero_f64(b.v[0], b.v[1])));
        const double angle = 6.283185307179586 * draws::unit_f64(b.v[2], b.v[3]);
        out[0] = mean + std * r * std::cos(angle);
        out[1] = mean + std * r * std::sin(angle);
      });
}

void exponential(Tensor& x, double lambda, Philox rng) {
  const double least = shapes::exponential_least(x, lambda);
  const float scale = static_cast<float>(1 / lambda), least_f32 = static_cast<float>(least);
  fill_floating(
      x, rng,
      [=](const Batch& drawn, float(&out)[4][kBatch]) {
        for (int k = 0; k < 4; ++k) {
          for (int i = 0; i < kBatch; ++i) {
            const float v = scale * draws::exponential_f32(drawn.v[k][i]);
            out[k][i] = v > least_f32 ? v : least_f32;
          }
        }
      },
      [=](const PhiloxBlock& b, double* out) {
        for (int k = 0; k < 2; ++k) {
          const double v = draws::exponential_f64(b.v[2 * k], b.v[2 * k + 1]) / lambda;
          out[k] = v > least ? v : least;
        }
      });
}

void bernoulli_fill(Tensor& x, double p, Philox rng) {
  const float limit = static_cast<float>(p);
  with_contiguous(x, [&](Tensor& y) {
    visit<dtypes::real | dtypes::boolean>(y.dtype(), [&]<class T>() {
      fill_f32(y.elements<T>(), y.numel(), rng, [=](const Batch& drawn, float(&out)[4][kBatch]) {
        for (int k = 0; k < 4; ++k) {
          for (int i = 0; i < kBatch; ++i) {
            out[k][i] = draws::unit_f32(drawn.v[k][i]) < limit ? 1.0f : 0.0f;
          }
        }
      });
    });
  });
}

namespace {

// What is left of 64 bits divided by a count, without a division each; all of them for count 0,
// which stands for 2^64.
class Remainder {
 public:
  explicit Remainder(uint64_t count)
      : count_(count), inverse_(count == 0 ? 0 : ~uint64_t{0} / count) {}
  uint64_t operator()(uint64_t bits) const {
    if (count_ == 0) return bits;
    // The quotient, or up to 2 less.
    const auto quotient = static_cast<uint64_t>(static_cast<Wide>(bits) * inverse_ >> 64);
    return less_once(less_once(bits - quotient * count_));
  }

 private:
  // Without a branch, which chance would take.
  uint64_t less_once(uint64_t rest) const {
    return rest - (count_ & (uint64_t{0} - static_cast<uint64_t>(rest >= count_)));
  }
  __extension__ typedef unsigned __int128 Wide;
  uint64_t count_, inverse_;
};

}  // namespace

void random(Tensor& x, std::optional<int64_t> low, std::optional<int64_t> high, Philox rng) {
  const shapes::IntegerRange range = shapes::integer_range(x, low, high);
  const uint64_t first = static_cast<uint64_t>(range.first);
  const Remainder within(range.count());
  const shapes::DrawBounds bounds =
      is_floating(x.dtype()) ? shapes::integer_bounds(x, range) : shapes::DrawBounds{};
  with_contiguous(x, [&](Tensor& y) {
    visit<dtypes::real | dtypes::boolean>(y.dtype(), [&]<class T>() {
      fill_pairs(y.elements<T>(), y.numel(), rng, [=](const PhiloxBlock& b, T* out) {
        for (int k = 0; k < 2; ++k) {
          const uint64_t bits = static_cast<uint64_t>(b.v[2 * k]) << 32 | b.v[2 * k + 1];
          const int64_t v = static_cast<int64_t>(first + within(bits));
          if constexpr (std::is_integral_v<T>)
            out[k] = static_cast<T>(v);
          else
            out[k] = narrow<T>(std::clamp(static_cast<double>(v), bounds.first, bounds.last));
        }
      });
    });
  });
}

void poisson_draw(const Tensor& rate, Philox rng, Tensor& y) {
  const Tensor rates = converted(rate, DType::Float64);
  const double* from = rates.elements<double>();
  visit<dtypes::floating>(y.dtype(), [&]<class T>() {
    T* to = y.elements<T>();
    parallel_for(y.numel(), 512, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = narrow<T>(draws::poisson(rng, static_cast<uint64_t>(i), from[i]));
    });
  });
}

void binomial_draw(const Tensor& count, const Tensor& prob, Philox rng, Tensor& y) {
  const Tensor counts = converted(count, DType::Float64), probs = converted(prob, DType::Float64);
  const double *n = counts.elements<double>(), *p = probs.elements<double>();
  visit<dtypes::floating>(y.dtype(), [&]<class T>() {
    T* to = y.elements<T>();
    parallel_for(y.numel(), 512, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = narrow<T>(draws::binomial(rng, static_cast<uint64_t>(i), n[i], p[i]));
    });
  });
}

void standard_gamma(const Tensor& concentration, Philox rng, Tensor& y) {
  const Tensor shapes = converted(concentration, DType::Float64);
  const double* from = shapes.elements<double>();
  visit<dtypes::floating>(y.dtype(), [&]<class T>() {
    T* to = y.elements<T>();
    parallel_for(y.numel(), 512, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        to[i] = narrow<T>(draws::standard_gamma(rng, static_cast<uint64_t>(i), from[i]));
    });
  });
}

void dropout_mask(const Tensor& x, double p, Philox rng, Tensor& y) {
  const float limit = static_cast<float>(p);
  const float kept = static_cast<float>(draws::dropout_scale(p));
  visit<dtypes::floating>(x.dtype(), [&]<class T>() {
    fill_f32(y.elements<T>(), y.numel(), rng, [=](const Batch& drawn, float(&out)[4][kBatch]) {
      for (int k = 0; k < 4; ++k) {
        for (int i = 0; i < kBatch; ++i) {
          out[k][i] = draws::unit_f32(drawn.v[k][i]) < limit ? 0.0f : kept;
        }
      }
    });
  });
}

void random_states(const Tensor& x, int64_t n, Philox rng, Tensor& y) {
  const auto blocks = static_cast<uint64_t>(draws::row_blocks(n));
  with_contiguous(y, [&](Tensor& out) {
    int64_t* to = out.elements<int64_t>();
    for (int64_t i = 0; i < x.numel(); ++i) {
      to[2 * i] = static_cast<int64_t>(rng.seed);
      to[2 * i + 1] = static_cast<int64_t>(rng.offset + static_cast<uint64_t>(i) * blocks);
    }
  });
}

void dropout_rows(const Tensor& states, double p, int64_t first, int64_t rows, int64_t columns,
                  int64_t length, DType, Tensor& y) {
  if (y.numel() == 0) return;
  const Tensor from = contiguous(states);
  const int64_t* of_entries = from.elements<int64_t>();
  const draws::Under dropped(p);
  with_contiguous(y, [&](Tensor& out) {
    visit<dtypes::floating>(out.dtype(), [&]<class T>() {
      using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
      const auto kept = static_cast<C>(draws::dropout_scale(p));
      T* to = out.elements<T>();
      parallel_for(out.numel() / columns, grain_for(columns), [&](int64_t begin, int64_t end) {
        C drawn[bits::kMasks];
        for (int64_t row = begin; row < end; ++row) {
          const int64_t* state = of_entries + row / rows * 2;
          const Philox rng{static_cast<uint64_t>(state[0]), static_cast<uint64_t>(state[1])};
          const int64_t start = (first + row % rows) * draws::row_blocks(length);
          for (int64_t i = 0; i < columns; i += bits::kMasks) {
            bits::draw_masks(rng, static_cast<uint64_t>(start + i / 4), dropped, kept, drawn);
            const int64_t count = std::min<int64_t>(bits::kMasks, columns - i);
            for (int64_t k = 0; k < count; ++k) to[row * columns + i + k] = T(drawn[k]);
          }
        }
      });
    });
  });
}

}  // namespace moonlet::cpu
