// cuda/kernels/normalization/batch_norm.cu: batch_norm in training and its gradients, of images
// whose planes lie one after the other (n, c, h, w) or whose channels lie side by side
// (channels_last, matrices). Blocks find the moments or sums of a piece of a channel by packs, a
// second launch joins the pieces in their order, and a third goes over all packs.
#include "cuda/kernels/normalization/batch_norm.h"

#include "cuda/kernels/normalization/channels.cuh"

namespace moonlet::cuda {

namespace {

// The same for sums: the product's is the gradient of the weight, that of grad the bias's.
template <class C>
__global__ void finish_gradients_kernel(Channels p, const Gradients<C>* parts, C count,
                                        const ChannelCenter<C>* centers, OptionalArray weight,
                                        GradientLine<C>* lines, OptionalArray grad_weight,
                                        OptionalArray grad_bias) {
  const int lane = threadIdx.x % kWarp;
  const int64_t step = int64_t{gridDim.x} * (kBlock / kWarp);
  for (int64_t start = int64_t{blockIdx.x} * (kBlock / kWarp); start < p.channels; start += step) {
    const int64_t channel = start + threadIdx.x / kWarp;
    Gradients<C> all = {C(0), C(0)};
    if (channel < p.channels)
      for (int64_t i = lane; i < p.pieces; i += kWarp)
        all = JoinGradients()(all, parts[channel * p.pieces + i]);
    all = combine_lanes(all, kWarp, JoinGradients());
    if (lane != 0 || channel >= p.channels) continue;
    const ChannelCenter<C> center = centers[channel];
    const C product = all.product - center.shift * all.plain;
    if (grad_weight.given) grad_weight.array.set<C>(channel, product);
    if (grad_bias.given) grad_bias.array.set<C>(channel, all.plain);
    if (lines != nullptr)
      lines[channel] = gradient_line<C>(center, all.plain / count, product / count, C(1),
                                        weight.get<C>(channel, C(1)));
  }
}

}  // namespace

bool batch_norm_by_packs(const Call& call, const Tensor& input, const Tensor& weight,
                         const Tensor& bias, const RunningStatistics& running, double eps,
                         Tensor& y, Tensor& mean, Tensor& rstd) {
  Channels p;
  if (input.numel() == 0 || input.dtype() != y.dtype() || !plan_channels(y, p)) return false;
  const Tensor x = laid_as(call, y, input);
  const Tensor w = contiguous_if_given(weight), b = contiguous_if_given(bias);
  visit_float_types(x.dtype(), [&]<class T>() {
    using C = Computed<T>;
    const PackSource source = row_source(x, p.width);
    const Tensor lines = channel_table<Line<C>>(call, p.channels);
    find_moments<T>(call, p, source, eps, mean, rstd, w, b, table_of<Line<C>>(lines),
                    {optional(running.mean), optional(running.var), running.momentum});
    run_lines<T, Line<C>>(call, p, lines, source, source, y);
  });
  return true;
}

bool batch_norm_backward_by_packs(const Call& call, const Tensor& gradient, const Tensor& input,
                                  const Tensor& mean, const Tensor& rstd, const Tensor& weight,
                                  const NormGradients& out) {
  Channels p;
  const Tensor& like = out.x ? *out.x : input;
  const bool alike = input.dtype() == gradient.dtype() && input.dtype() == like.dtype();
  if (input.numel() == 0 || !alike || !plan_channels(like, p)) return false;
  const Tensor x = laid_as(call, like, input), grad = laid_as(call, like, gradient);
  const Tensor w = contiguous_if_given(weight);
  const int64_t count = x.numel() / p.channels;
  visit_float_types(x.dtype(), [&]<class T>() {
    using C = Computed<T>;
    const PackSource source = row_source(x, p.width), gradients = row_source(grad, p.width);
    const Tensor table = center_table<C>(call, p.channels, 1, count, mean, rstd);
    const auto* const centers = table_of<const ChannelCenter<C>>(table);
    const Tensor parts = run_parts<TakeGradients<T>>(call, p, {gradients, source, centers});
    const Tensor lines = out.x ? channel_table<GradientLine<C>>(call, p.channels) : Tensor();
    MOONLET_LAUNCH((finish_gradients_kernel<C>), blocks_for(p.channels * kWarp), kBlock, 0,
                   call.stream(), p, table_of<const Gradients<C>>(parts), static_cast<C>(count),
                   centers, optional(w), table_of<GradientLine<C>>(lines),
                   optional(out.weight ? *out.weight : Tensor()),
                   optional(out.bias ? *out.bias : Tensor()));
    call.done();
    if (out.x) run_lines<T, GradientLine<C>>(call, p, lines, gradients, source, *out.x);
  });
  return true;
}

}  // namespace moonlet::cuda
