// cuda/kernels/attention/nn_attention_check.cu: whether a device computes attention by products of
// warpgroups as by those of warps, tried once on a small problem.
#include <array>
#include <atomic>
#include <cmath>
#include <string>

#include "cuda/kernels/attention/nn_attention_warpgroup.cuh"
#include "cuda/libraries/library.h"
#include "cuda/runtime/capture.h"
#include "tensor/core/warning.h"

namespace moonlet::cuda::attention {

namespace {

enum class Verdict : int { kUnknown, kRight, kUnused };

// Numbers of [-1, 1) on the device, always the same.
Tensor some_numbers(const Call& call, const Dims& sizes, DType dtype, uint32_t seed) {
  Tensor here = empty_plain(sizes, {DType::Float32, Device{}}, call.op()),
         there = call.scratch(sizes, DType::Float32);
  float* at = here.elements<float>();
  for (int64_t i = 0; i < here.numel(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    at[i] = static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f;
  }
  transfer(there, here);
  return converted(there, dtype);
}

// The greatest difference of two tensors, no number where one has something that is none.
float difference(const Call& call, const Tensor& x, const Tensor& y) {
  const auto fetched = [&](const Tensor& from) {
    Tensor out = empty_plain(from.sizes(), {DType::Float32, Device{}}, call.op());
    transfer(out, converted(from, DType::Float32));
    return out;
  };
  const Tensor a = fetched(x), b = fetched(y);
  float most = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    const float apart = std::abs(a.elements<float>()[i] - b.elements<float>()[i]);
    if (!(apart <= most)) most = apart;
    if (std::isnan(most)) break;
  }
  return most;
}

// Attention and its gradients by warpgroups or by warps.
struct Computed {
  Tensor result, sums, gradients[3];
};

// Several tiles of queries and of keys, the last ones not full, and weights that are not all alike.
struct Trial {
  static constexpr int64_t kEntries = 2, kQueries = 70, kKeys = 150;
  Dims of_queries, of_keys, of_sums{kEntries, kQueries};
  DType dtype;
  Tensor query, key, value, gradient;

  Trial(const Call& call, DType t, int64_t columns)
      : of_queries{kEntries, kQueries, columns},
        of_keys{kEntries, kKeys, columns},
        dtype(t),
        query(some_numbers(call, of_queries, t, 1)),
        key(some_numbers(call, of_keys, t, 2)),
        value(some_numbers(call, of_keys, t, 3)),
        gradient(some_numbers(call, of_queries, t, 4)) {}

  Computed compute(const Call& call, bool by_warpgroups) const {
    constexpr Scores kScores{false, 0.5};
    Computed out{call.scratch(of_queries, dtype),
                 call.scratch(of_sums, DType::Float32),
                 {call.scratch(of_queries, dtype), call.scratch(of_keys, dtype),
                  call.scratch(of_keys, dtype)}};
    Batch batch(query, key, value, {}, {}, {kEntries});
    batch.set(kGradient, out.result);
    attend_by_tiles(call, batch, dtype, kScores, by_warpgroups, out.sums);
    batch.set(kGradient, gradient);
    const Tensor dots = call.scratch(of_sums, DType::Float32);
    attend_back_by_tiles(call, batch, dtype, {kScores, out.result, out.sums, dots, out.gradients},
                         by_warpgroups);
    return out;
  }
};

Verdict compare(const Call& call, DType dtype, int64_t columns) {
  if (!has_warpgroup_code(call)) return Verdict::kUnused;
  const Trial trial(call, dtype, columns);
  const Computed got = trial.compute(call, true), want = trial.compute(call, false);
  const float result = difference(call, got.result, want.result),
              sums = difference(call, got.sums, want.sums);
  // Weights are rounded below different maxima, and results once more.
  const float roundings = dtype == DType::Float16 ? 0x1p-8f : 0x1p-5f;
  bool alike = result <= roundings && sums <= 0x1p-10f;
  std::string apart = "results by " + std::to_string(result) + ", sums by " + std::to_string(sums) +
                      ", gradients by";
  for (int i = 0; i < 3; ++i) {
    const float gradient = difference(call, got.gradients[i], want.gradients[i]);
    alike = alike && gradient <= 4 * roundings;
    apart += ' ' + std::to_string(gradient);
  }
  if (alike) return Verdict::kRight;
  warn_once("attention by wgmma", std::string(call.op()) + ": on " + name(call.device()) +
                                      " products by wgmma differ from those by mma.sync, " + apart +
                                      ": wgmma is left alone");
  return Verdict::kUnused;
}

}  // namespace

bool warpgroups_are_right(const Call& call, DType dtype, int64_t columns) {
  if (!fits_warpgroups(dtype, columns)) return false;
  static const bool left_out = is_left_out("wgmma");
  if (left_out) return false;
  constexpr size_t kMaxDevices = 64;
  static std::array<std::array<std::atomic<Verdict>, 4>, kMaxDevices> verdicts{};
  const bool wide = columns > 64;
  auto& verdict = verdicts.at(static_cast<size_t>(call.device().index))
                      .at(2 * (dtype == DType::Float16) + wide);
  if (verdict == Verdict::kUnknown) {
    if (is_captured(call.stream())) return false;
    verdict = compare(call, dtype, wide ? 128 : 64);
  }
  return verdict == Verdict::kRight;
}

}  // namespace moonlet::cuda::attention
