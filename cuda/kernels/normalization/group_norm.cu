// cuda/kernels/normalization/group_norm.cu: group_norm and its gradients. The statistics are those
// of the groups as channels of one entry; sums of gradients, and the pass over all packs, go by
// planes, which have a weight each.
#include "cuda/kernels/normalization/batch_norm.h"
#include "cuda/kernels/normalization/channels.cuh"
#include "tensor/core/views.h"
#include "tensor/kernels_copy.h"
#include "tensor/kernels_reduce.h"

namespace moonlet::cuda {

namespace {

// x (n, c, ...) in `groups` groups of `each` planes for all entries, of `elements` each.
struct Groups {
  int64_t entries, channels, groups, each, elements;
  Groups(const Tensor& x, int64_t count)
      : entries(x.size(0)),
        channels(x.size(1)),
        groups(entries * count),
        each(channels / count),
        elements(x.numel() / groups) {}
  int64_t planes() const { return entries * channels; }
  // Contiguous x as one entry, with a channel for each group or plane.
  Tensor by_groups(const Tensor& x) const { return views::view(x, {1, groups, elements}); }
  Tensor by_planes(const Tensor& x) const { return views::view(x, {1, planes(), elements / each}); }
};

template <class C>
__global__ void group_lines_kernel(Groups g, const ChannelCenter<C>* centers, OptionalArray weight,
                                   OptionalArray bias, Line<C>* lines) {
  for (MOONLET_EACH(i, g.entries * g.channels)) {
    const ChannelCenter<C> center = centers[i];
    const C factor = weight.get<C>(i % g.channels, C(1));
    lines[i] = {center.unit, center.mean, center.rstd * factor,
                bias.get<C>(i % g.channels, C(0)) - center.shift * factor};
  }
}

// What the planes bring to the gradients of weight and bias, and their lines, unless these are
// null: a warp for each group.
template <class C>
__global__ void group_gradients_kernel(Groups g, int64_t pieces, const Gradients<C>* parts,
                                       const ChannelCenter<C>* centers, OptionalArray weight,
                                       C* of_weight, C* of_bias, GradientLine<C>* lines) {
  const int lane = threadIdx.x % kWarp;
  const int64_t step = int64_t{gridDim.x} * (kBlock / kWarp);
  for (int64_t start = int64_t{blockIdx.x} * (kBlock / kWarp); start < g.groups; start += step) {
    const int64_t group = start + threadIdx.x / kWarp, first = group * g.each;
    const int64_t last = group < g.groups ? first + g.each : first;
    Gradients<C> all = {C(0), C(0)};
    for (int64_t plane = first + lane; plane < last; plane += kWarp) {
      Gradients<C> sums = {C(0), C(0)};
      for (int64_t i = 0; i < pieces; ++i) sums = JoinGradients()(sums, parts[plane * pieces + i]);
      sums.product -= centers[plane].shift * sums.plain;
      of_weight[plane] = sums.product;
      of_bias[plane] = sums.plain;
      const C w = weight.get<C>(plane % g.channels, C(1));
      all = JoinGradients()(all, {w * sums.plain, w * sums.product});
    }
    all = from_lane(combine_lanes(all, kWarp, JoinGradients()), 0, kWarp);
    const C count = static_cast<C>(g.elements);
    for (int64_t plane = first + lane; lines != nullptr && plane < last; plane += kWarp)
      lines[plane] = gradient_line<C>(centers[plane], all.plain / count, all.product / count,
                                      weight.get<C>(plane % g.channels, C(1)), C(1));
  }
}

Channels plan_of(const Call& call, const Tensor& x) {
  Channels p;
  check(plan_channels(x, p), call.op(), ": an entry has ", x.numel(),
        " elements, more than the device counts");
  return p;
}

// Whether x has more elements than plan_channels takes.
bool is_long(const Tensor& x) { return x.numel() >= kDividerLimit && x.size(0) > 1; }

// Entries [from, to) of a tensor that may be undefined.
Tensor entries(const Tensor& x, int64_t from, int64_t to) {
  return x.defined() ? views::slice(x, 0, from, to, 1) : x;
}

// The sums over all entries of parts (n, c).
void sum_entries(const Tensor& parts, Tensor* y) {
  if (y != nullptr) sum(parts, Dims{0}, false, std::nullopt, *y);
}

}  // namespace

void group_norm_by_packs(const Call& call, const Tensor& input, int64_t groups,
                         const Tensor& weight, const Tensor& bias, double eps, Tensor& result,
                         Tensor& mean, Tensor& rstd) {
  if (is_long(input)) {
    const int64_t n = input.size(0);
    for (const auto& [from, to] : {std::pair{int64_t{0}, n / 2}, std::pair{n / 2, n}}) {
      Tensor y = entries(result, from, to), m = entries(mean, from, to),
             s = entries(rstd, from, to);
      group_norm_by_packs(call, entries(input, from, to), groups, weight, bias, eps, y, m, s);
    }
    return;
  }
  const Tensor x = contiguous(input), w = contiguous_if_given(weight),
               b = contiguous_if_given(bias);
  const Groups g(x, groups);
  const Tensor all = g.by_groups(x), planes = g.by_planes(x);
  const Channels p = plan_of(call, all), q = plan_of(call, planes);
  with_contiguous(result, [&](Tensor& whole) {
    visit_float_types(x.dtype(), [&]<class T>() {
      using C = Computed<T>;
      find_moments<T>(call, p, row_source(all, p.width), eps, mean, rstd, {}, {}, nullptr, {});
      const Tensor centers = center_table<C>(call, g.planes(), g.each, g.elements, mean, rstd);
      const Tensor lines = channel_table<Line<C>>(call, g.planes());
      MOONLET_LAUNCH((group_lines_kernel<C>), blocks_for(g.planes()), kBlock, 0, call.stream(), g,
                     table_of<const ChannelCenter<C>>(centers), optional(w), optional(b),
                     table_of<Line<C>>(lines));
      call.done();
      const PackSource source = row_source(planes, q.width);
      Tensor y = g.by_planes(whole);
      run_lines<T, Line<C>>(call, q, lines, source, source, y);
    });
  });
}

void group_norm_backward_by_packs(const Call& call, const Tensor& gradient, const Tensor& input,
                                  const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                                  int64_t groups, const NormGradients& out) {
  if (is_long(input)) {
    const int64_t n = input.size(0);
    const DType compute = compute_dtype(input.dtype());
    const Tensor of_weight = call.scratch({2, input.size(1)}, compute),
                 of_bias = call.scratch({2, input.size(1)}, compute);
    for (int i = 0; i < 2; ++i) {
      const int64_t from = i * (n / 2), to = i == 0 ? n / 2 : n;
      Tensor y = out.x ? entries(*out.x, from, to) : Tensor(), w = views::select(of_weight, 0, i),
             b = views::select(of_bias, 0, i);
      group_norm_backward_by_packs(call, entries(gradient, from, to), entries(input, from, to),
                                   entries(mean, from, to), entries(rstd, from, to), weight, groups,
                                   {out.x ? &y : nullptr, &w, &b});
    }
    sum_entries(of_weight, out.weight);
    return sum_entries(of_bias, out.bias);
  }
  if (gradient.dtype() != input.dtype()) {
    const Tensor x = converted(input, DType::Float32);
    Tensor y = out.x ? call.scratch(x.sizes(), DType::Float32) : Tensor();
    group_norm_backward_by_packs(call, converted(gradient, DType::Float32), x, mean, rstd, weight,
                                 groups, {out.x ? &y : nullptr, out.weight, out.bias});
    if (out.x) copy(*out.x, y);
    return;
  }
  const Tensor x = contiguous(input), grad = contiguous(gradient), w = contiguous_if_given(weight);
  const Groups g(x, groups);
  const Tensor planes = g.by_planes(x), grad_planes = g.by_planes(grad);
  const Channels p = plan_of(call, planes);
  const DType compute = compute_dtype(x.dtype());
  const Tensor of_weight = call.scratch({g.entries, g.channels}, compute),
               of_bias = call.scratch({g.entries, g.channels}, compute);
  visit_float_types(x.dtype(), [&]<class T>() {
    using C = Computed<T>;
    const PackSource source = row_source(planes, p.width),
                     gradients = row_source(grad_planes, p.width);
    const Tensor table = center_table<C>(call, g.planes(), g.each, g.elements, mean, rstd);
    const auto* const centers = table_of<const ChannelCenter<C>>(table);
    const Tensor parts = run_parts<TakeGradients<T>>(call, p, {gradients, source, centers});
    const Tensor lines = out.x ? channel_table<GradientLine<C>>(call, g.planes()) : Tensor();
    MOONLET_LAUNCH((group_gradients_kernel<C>), blocks_for(g.groups * kWarp), kBlock, 0,
                   call.stream(), g, p.pieces, table_of<const Gradients<C>>(parts), centers,
                   optional(w), of_weight.elements<C>(), of_bias.elements<C>(),
                   table_of<GradientLine<C>>(lines));
    call.done();
    if (!out.x) return;
    with_contiguous(*out.x, [&](Tensor& whole) {
      Tensor y = g.by_planes(whole);
      run_lines<T, GradientLine<C>>(call, p, lines, gradients, source, y);
    });
  });
  sum_entries(of_weight, out.weight);
  sum_entries(of_bias, out.bias);
}

}  // namespace moonlet::cuda
