// cuda/libraries/cudnn_attention.cpp: what cuDNN is given of attention: four dimensions, whose
// heads may be groups that share a key's, and plans that are kept for the thread.
#include "cuda/libraries/cudnn_attention.h"

#include "cuda/libraries/cudnn_headers.h"

#ifdef MOONLET_HAS_CUDNN

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cuda/libraries/cudnn_attention_graph.h"
#include "cuda/libraries/cudnn_engines.h"
#include "cuda/libraries/plan_cache.h"
#include "cuda/runtime/capture.h"
#include "tensor/runtime/cudnn_settings.h"

namespace moonlet::cuda::cudnn {

namespace {

constexpr size_t kMostPlans = 1024;  // that a thread keeps
// How often gradients of one shape are asked for before they are planned: their kernels are
// compiled for their sizes, and half a second for each length of a sequence would never be made up
// for.
constexpr int kOften = 16;
constexpr size_t kLeastVersion = 91600;  // older ones have known faults
constexpr const char* kOp = "scaled_dot_product_attention";

struct Key : NumbersKey {
  void add(const Rows4& x) {
    numbers.insert(numbers.end(), x.sizes.begin(), x.sizes.end());
    numbers.insert(numbers.end(), x.strides.begin(), x.strides.end());
  }
};

bool is_allowed(DType t) {
  const CudnnSettings& s = cudnn_settings;
  return s.enabled && s.attention && (t == DType::Float16 || t == DType::BFloat16) &&
         library() != nullptr && library()->cudnnGetVersion() >= kLeastVersion;
}

// The dimensions in front of rows, at most (n, heads, heads that share one of key and value).
struct Batch {
  static constexpr int kMostRank = 3;
  int rank;
  Dims sizes;
  explicit Batch(const Tensor& y) : rank(y.dim() - 2), sizes(at(y, true)) {}
  // The sizes or strides of those of x, the last ones of which it has.
  Dims at(const Tensor& x, bool is_size) const {
    Dims out = Dims::filled(kMostRank, is_size ? 1 : 0);
    for (int d = 0; d < x.dim() - 2 && rank <= kMostRank; ++d)
      out[rank - (x.dim() - 2) + d] = is_size ? x.size(d) : x.stride(d);
    return out;
  }
};

// x as four dimensions in which cuDNN can read it where it lies. The heads of key and value may be
// fewer than those of the query, each of which then belongs to as many in a row.
std::optional<Rows4> rows_of(const Tensor& x, const Batch& batch) {
  const Dims &whole = batch.sizes, sizes = batch.at(x, true), strides = batch.at(x, false);
  if (sizes[0] != whole[0] || (sizes[2] != whole[2] && sizes[2] != 1)) return std::nullopt;
  if (sizes[1] != whole[1] && (sizes[1] != 1 || sizes[2] != 1)) return std::nullopt;
  if (sizes[1] > 1 && sizes[2] > 1 && strides[1] != sizes[2] * strides[2]) return std::nullopt;
  Rows4 out{{sizes[0], sizes[1] * sizes[2], x.size(-2), x.size(-1)},
            {strides[0], sizes[2] > 1 ? strides[2] : strides[1], x.stride(-2), 1}};
  const Dims dense = contiguous_strides(out.sizes);
  for (int d = 0; d < 3; ++d)
    if (out.sizes[d] == 1) out.strides[d] = dense[d];
  constexpr int64_t kPack = 8;  // elements in 16 bytes
  bool fits = x.size(-1) % kPack == 0 && (x.size(-1) == 1 || x.stride(-1) == 1) && x.numel() > 0 &&
              x.numel() <= INT32_MAX && is_aligned(x);
  for (int d = 0; d < 3; ++d) fits = fits && out.strides[d] > 0 && out.strides[d] % kPack == 0;
  return fits ? std::optional(out) : std::nullopt;
}

struct Operand {
  const Tensor& x;
  Rows4& rows;
};

bool read_all(std::initializer_list<Operand> all, const Batch& batch) {
  for (const Operand& each : all) {
    const auto rows = rows_of(each.x, batch);
    if (!rows) return false;
    each.rows = *rows;
  }
  return true;
}

// What both ways have in common; nothing where cuDNN cannot read it.
std::optional<Attention> read(const Batch& batch, const Tensor& query, const Tensor& key,
                              const Tensor& value, const Tensor& y, const Tensor& logsumexp,
                              bool is_causal) {
  if (!is_allowed(query.dtype()) || batch.rank > Batch::kMostRank || query.dim() != y.dim() ||
      !logsumexp.is_contiguous() || logsumexp.dtype() != DType::Float32)
    return std::nullopt;
  Attention out{query.dtype(), is_causal, {}, {}, {}, {}, {}};
  if (!read_all({{query, out.query}, {key, out.key}, {value, out.value}, {y, out.result}}, batch))
    return std::nullopt;
  const Dims& sizes = out.result.sizes;
  if (out.query.sizes[1] != sizes[1] || out.key.sizes[1] != out.value.sizes[1]) return std::nullopt;
  out.sums = {sizes[1] * sizes[2], sizes[2], 1, 1};
  return out;
}

Key key_of(const Attention& a, int device) {
  const CudnnSettings& s = cudnn_settings;
  Key out{{{device, static_cast<int64_t>(a.dtype), a.is_causal, s.deterministic}}};
  for (const Rows4* x : {&a.query, &a.key, &a.value, &a.result}) out.add(*x);
  return out;
}

// What is known of a problem.
struct Known {
  std::optional<GraphPlan> plan;
  int asked = 0;  // before it was planned
  bool is_planned = false;
};

// The kernels of the way forward, which any numbers of rows and heads share.
KernelCache& kernels_of(const Attention& a, int device) {
  static thread_local std::map<std::array<int64_t, 6>, KernelCache> all;
  return all[{device, static_cast<int64_t>(a.dtype), a.is_causal, a.query.sizes[3],
              a.value.sizes[3], a.query.sizes[1] / a.key.sizes[1]}];
}

// The plan of a problem, made when it has been asked for so often; null where there is none, or
// none yet. While the stream is recorded none is made.
template <class Describe>
GraphPlan* plan_of(const Call& call, cudnnHandle_t handle, const Key& key, int often,
                   KernelCache* kernels, Describe&& describe) {
  static thread_local PlanCache<Key, Known> plans(kMostPlans);
  Known* known = plans.find(key);
  if (known == nullptr) known = &plans.keep(key, {});
  if (!known->is_planned) {
    if (is_captured(call.stream()) || ++known->asked < often) return nullptr;
    try {
      known->plan =
          GraphPlan::of(describe(), handle, {cudnn_settings.deterministic, false}, kernels);
    } catch (const NoWay&) {
      // Not to be asked for again.
    }
    known->is_planned = true;
  }
  return known->plan && !known->plan->is_empty() ? &*known->plan : nullptr;
}

}  // namespace

bool attention(const Tensor& query, const Tensor& key, const Tensor& value, bool is_causal,
               double scale, Tensor& y, Tensor& logsumexp) {
  const Batch batch(y);
  const auto a = read(batch, query, key, value, y, logsumexp, is_causal);
  if (!a) return false;
  const Call call(y, kOp);
  cudnnHandle_t handle = handle_of(call);
  if (!handle) return false;
  const int device = y.device().index;
  GraphPlan* plan = plan_of(call, handle, key_of(*a, device), 1, &kernels_of(*a, device),
                            [&] { return attention_graph(*a, kOp); });
  auto factor = static_cast<float>(scale), hidden = -std::numeric_limits<float>::infinity();
  std::vector<void*> given{query.raw(), key.raw(), value.raw(), y.raw(), logsumexp.raw(), &factor};
  if (is_causal) given.push_back(&hidden);
  if (plan == nullptr || !plan->run(call, handle, given)) return false;
  call.done();
  return true;
}

bool attention_grads(const Tensor& given_grad, const Tensor& query, const Tensor& key,
                     const Tensor& value, const Tensor& y, const Tensor& logsumexp, bool is_causal,
                     double scale, Tensor& grad_query, Tensor& grad_key, Tensor& grad_value) {
  // What its kernels add up to gradients of queries comes in no order, whatever their notes say.
  if (cudnn_settings.deterministic || given_grad.dtype() != query.dtype() ||
      y.dtype() != query.dtype())
    return false;
  const Batch batch(y);
  const auto a = read(batch, query, key, value, y, logsumexp, is_causal);
  if (!a || (query.size(-2) == 1 && key.size(-2) == 1)) return false;
  AttentionGrads b{*a, {}, {}, {}, {}};
  const Tensor grad = rows_of(given_grad, batch) ? given_grad : contiguous(given_grad);
  if (!read_all({{grad, b.grad},
                 {grad_query, b.grad_query},
                 {grad_key, b.grad_key},
                 {grad_value, b.grad_value}},
                batch))
    return false;
  const Call call(query, kOp);
  cudnnHandle_t handle = handle_of(call);
  if (!handle) return false;
  Key known = key_of(*a, query.device().index);
  for (const Rows4* x : {&b.grad, &b.grad_query, &b.grad_key, &b.grad_value}) known.add(*x);
  GraphPlan* plan =
      plan_of(call, handle, known, kOften, nullptr, [&] { return attention_grads_graph(b, kOp); });
  if (plan == nullptr) return false;
  const Tensor dots = call.scratch(logsumexp.sizes(), DType::Float32),
               total = call.scratch(query.sizes(), DType::Float32);
  float one = 1;
  auto factor = static_cast<float>(scale), hidden = -std::numeric_limits<float>::infinity();
  std::vector<void*> given{query.raw(),      key.raw(),  value.raw(),      y.raw(),
                           logsumexp.raw(),  grad.raw(), grad_query.raw(), grad_key.raw(),
                           grad_value.raw(), dots.raw(), total.raw(),      &one,
                           &factor};
  if (is_causal) given.push_back(&hidden);
  if (!plan->run(call, handle, given)) return false;
  call.done();
  return true;
}

}  // namespace moonlet::cuda::cudnn

#else

namespace moonlet::cuda::cudnn {

bool attention(const Tensor&, const Tensor&, const Tensor&, bool, double, Tensor&, Tensor&) {
  return false;
}
bool attention_grads(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                     const Tensor&, bool, double, Tensor&, Tensor&, Tensor&) {
  return false;
}

}  // namespace moonlet::cuda::cudnn

#endif
