// tensor/cpu/conv/conv_parts.cpp: convolution by parts. A batch is cut into runs of images. One
// image that is too much is cut into tiles of the output, each with the window of the input it
// sees.
#include "tensor/cpu/conv/conv_parts.h"

#include <cmath>

#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/common/thresholds.h"
#include "tensor/cpu/copy/copy.h"

namespace moonlet::cpu {
namespace {

// Libraries compute channels by vectors of this many.
constexpr int64_t kVector = 16;
constexpr double kMove = thresholds::conv::kMove;

double in_vectors(int64_t channels) {
  return static_cast<double>((channels + kVector - 1) / kVector * kVector);
}

// The multiply-adds that one position of one output image costs, or what takes as long.
double work_per_position(ConvPass pass, const ConvShape& s) {
  const bool input = pass == ConvPass::InputGrad;
  const double channels = in_vectors(input ? s.in_channels : s.out_channels);
  const double others = double((input ? s.out_channels : s.in_channels) / s.groups);
  const double seen = double(volume(s.in)) / double(volume(s.out));
  return std::max(channels * others * double(volume(s.kernel)),
                  kMove * (in_vectors(s.out_channels) + in_vectors(s.in_channels) * seen));
}

double threads() { return omp_in_parallel() ? 1 : omp_get_max_threads(); }

// The threads that share some rows of an image: each takes a row of a vector of channels.
double threads_for(const ConvShape& s, int64_t rows) {
  return std::min(threads(), double(rows) * in_vectors(s.out_channels) / kVector);
}

// t with the weight replaced, and that added to t's; the first part computes t's itself. `compute`
// takes tensors and says whether it has an implementation.
template <class Compute>
bool add_part(const ConvTensors& t, bool first, Compute&& compute) {
  if (first) return compute(t);
  ConvTensors part = t;
  part.weight = empty_plain(t.weight.sizes(), options_of(t.weight), "conv");
  if (!compute(part)) return false;
  float* const sum = t.weight.elements<float>();
  const float* const more = part.weight.elements<float>();
  parallel_for(t.weight.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sum[i] += more[i];
  });
  return true;
}

// What a tile has of one axis: positions of the output, and the window of the input they see, which
// may begin before the input or end behind it.
struct Span {
  int64_t out_begin, out_size, in_begin, in_size, pad;
};

// One axis of a convolution.
struct Axis {
  int64_t in, out, kernel, stride, pad, dilation;

  // The part `i` of `count`, of about the same size each. Its window has the padding in it.
  Span part(int64_t i, int64_t count) const {
    if (count == 1) return {0, out, 0, in, pad};
    const int64_t begin = out * i / count, size = out * (i + 1) / count - begin;
    return {begin, size, begin * stride - pad, (size - 1) * stride + (kernel - 1) * dilation + 1,
            0};
  }
};

Axis axis_of(const ConvShape& s, int i) {
  return {s.in[i], s.out[i], s.kernel[i], s.stride[i], s.pad[i], s.dilation[i]};
}

using Axes = ConvShape::Axes;
constexpr int kAxes = ConvShape::kAxes;
using Tile = std::array<Span, kAxes>;

// One field of a tile's spans.
Axes of_each(const Tile& tile, int64_t Span::*field) {
  Axes out;
  for (int i = 0; i < kAxes; ++i) out[i] = tile[i].*field;
  return out;
}

// The positions of an image that a box has, where it lies in the image, and the same in a tensor of
// the box alone.
struct Overlap {
  Tensor image, part;
  bool whole;
};

Overlap overlap(const Tensor& image, const Tensor& part, const Axes& from) {
  Dims sizes{1, part.size(1)};
  int64_t in_image = image.offset(), in_part = part.offset();
  for (int i = 0; i < kAxes; ++i) {
    const int64_t begin = std::max<int64_t>(from[i], 0);
    const int64_t end = std::min(image.size(2 + i), from[i] + part.size(2 + i));
    sizes.push_back(std::max<int64_t>(end - begin, 0));
    in_image += begin * image.stride(2 + i);
    in_part += (begin - from[i]) * part.stride(2 + i);
  }
  if (numel_of(sizes, "conv") == 0) {
    in_image = image.offset();
    in_part = part.offset();
  }
  return {alias(image, sizes, image.strides(), in_image),
          alias(part, sizes, part.strides(), in_part), sizes == part.sizes()};
}

// A tensor for a box of one image.
Tensor box_of(const Tensor& image, bool channels_last, const Axes& size) {
  const Dims sizes{1, image.size(1), size[0], size[1], size[2]};
  if (!channels_last) return empty_plain(sizes, options_of(image), "conv");
  return empty_strided(sizes, format_strides(MemoryFormat::ChannelsLast3d, sizes, "conv"),
                       options_of(image), "conv");
}

// A copy of a box of an image, with zeros where there is no image.
Tensor cut_out(const Tensor& image, bool channels_last, const Axes& from, const Axes& size) {
  Tensor part = box_of(image, channels_last, size);
  Overlap o = overlap(image, part, from);
  if (!o.whole) zero_bytes(part.raw(), part.numel() * int64_t{sizeof(float)});
  if (o.part.numel() > 0) copy_into(o.part, o.image);
  return part;
}

// Adds a box to the positions of the image that it lies over.
void add_back(const Tensor& image, const Tensor& part, bool channels_last, const Axes& from) {
  const Overlap o = overlap(image, part, from);
  if (o.part.numel() == 0) return;
  const int inner = channels_last ? 1 : 4, first = channels_last ? 2 : 1;
  const int64_t length = o.part.size(inner), lines = o.part.numel() / length;
  const auto line = [&](const Tensor& t, int64_t i) {
    int64_t at = 0;
    for (int d = first + 2; d >= first; --d) {
      at += i % t.size(d) * t.stride(d);
      i /= t.size(d);
    }
    return t.elements<float>() + at;
  };
  parallel_for(lines, grain_for(length), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* const sum = line(o.image, i);
      const float* const more = line(o.part, i);
      for (int64_t j = 0; j < length; ++j) sum[j] += more[j];
    }
  });
}

ConvShape shape_of(ConvShape s, const Tile& tile) {
  s.in = of_each(tile, &Span::in_size);
  s.out = of_each(tile, &Span::out_size);
  s.pad = of_each(tile, &Span::pad);
  return s;
}

// The part of a pass over one image that a tile has. Input gradients are added to t's.
bool run_tile(ConvPass pass, const ConvShape& s, const ConvTensors& t, const Tile& tile,
              ConvRun run) {
  const bool last = s.channels_last;
  const Axes in_begin = of_each(tile, &Span::in_begin), in_size = of_each(tile, &Span::in_size);
  const Axes out_begin = of_each(tile, &Span::out_begin), out_size = of_each(tile, &Span::out_size);
  ConvTensors part = t;
  part.x = pass == ConvPass::InputGrad ? box_of(t.x, last, in_size)
                                       : cut_out(t.x, last, in_begin, in_size);
  part.y = pass == ConvPass::Forward ? box_of(t.y, last, out_size)
                                     : cut_out(t.y, last, out_begin, out_size);
  if (!run(pass, shape_of(s, tile), part)) return false;
  if (pass == ConvPass::InputGrad) add_back(t.x, part.x, last, in_begin);
  if (pass == ConvPass::Forward) {
    Overlap o = overlap(t.y, part.y, out_begin);
    copy_into(o.image, o.part);
  }
  return true;
}

int64_t parts_for(double work, double limit, int64_t most) {
  return static_cast<int64_t>(std::min(std::max(1.0, std::ceil(work / limit)), double(most)));
}

// Into how many parts each axis of one image is cut: the outer ones first, an inner one where one
// position of the outer one is too much.
Axes cut_for(ConvPass pass, const ConvShape& s, double work) {
  Axes cut{1, 1, 1};
  const double position = work_per_position(pass, s);
  int64_t positions = volume(s.out), rows = s.out[0] * s.out[1];
  for (int i = 0; i < kAxes; ++i) {
    cut[i] = parts_for(position * double(positions), work * threads_for(s, rows), s.out[i]);
    if (cut[i] < s.out[i]) break;
    positions /= s.out[i];
    rows = i == 0 ? s.out[1] : 1;
  }
  return cut;
}

// How many images are computed at once.
int64_t images_for(ConvPass pass, const ConvShape& s, double work) {
  const double image = work_per_position(pass, s) * double(volume(s.out));
  return static_cast<int64_t>(std::clamp(work * threads() / image, 1.0, double(s.batch)));
}

bool image_in_tiles(ConvPass pass, const ConvShape& s, const ConvTensors& t, double work,
                    ConvRun run) {
  const Axes cut = cut_for(pass, s, work);
  if (volume(cut) == 1) return run(pass, s, t);
  if (pass == ConvPass::InputGrad) zero_bytes(t.x.raw(), t.x.numel() * int64_t{sizeof(float)});
  for (int64_t i = 0; i < volume(cut); ++i) {
    stop_if_requested();
    const Tile tile{axis_of(s, 0).part(i / cut[2] / cut[1], cut[0]),
                    axis_of(s, 1).part(i / cut[2] % cut[1], cut[1]),
                    axis_of(s, 2).part(i % cut[2], cut[2])};
    const auto compute = [&](const ConvTensors& part) {
      return run_tile(pass, s, part, tile, run);
    };
    // There may be an implementation for the image none the less.
    if (!add_part(t, pass != ConvPass::WeightGrad || i == 0, compute)) return run(pass, s, t);
  }
  return true;
}

Tensor images_of(const Tensor& t, int64_t first, int64_t count) {
  Dims sizes = t.sizes();
  sizes[0] = count;
  return alias(t, sizes, t.strides(), t.offset() + first * t.stride(0));
}

}  // namespace

bool fits_one_part(ConvPass pass, const ConvShape& s, double work) {
  if (s.batch > 1) return images_for(pass, s, work) == s.batch;
  return volume(cut_for(pass, s, work)) == 1;
}

bool conv_in_parts(ConvPass pass, const ConvShape& s, const ConvTensors& t, double work,
                   ConvRun run) {
  const int64_t step = images_for(pass, s, work);
  if (s.batch == 1) return image_in_tiles(pass, s, t, work, run);
  if (step == s.batch) return run(pass, s, t);
  for (int64_t first = 0; first < s.batch; first += step) {
    stop_if_requested();
    ConvShape part = s;
    part.batch = std::min(step, s.batch - first);
    const auto compute = [&](ConvTensors some) {
      some.x = images_of(t.x, first, part.batch);
      some.y = images_of(t.y, first, part.batch);
      return part.batch > 1 ? run(pass, part, some) : image_in_tiles(pass, part, some, work, run);
    };
    if (!add_part(t, pass != ConvPass::WeightGrad || first == 0, compute)) return false;
  }
  return true;
}

}  // namespace moonlet::cpu
