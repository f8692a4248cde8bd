// tensor/cpu/conv_parts.cpp: convolution by parts. A batch is cut into runs of images. One image
// that is too much is cut into tiles of the output, each with the window of the input it sees.
#include "tensor/cpu/conv_parts.h"

#include <cmath>

#include "tensor/cpu/copy.h"
#include "tensor/cpu/parallel.h"

namespace moonlet::cpu {
namespace {

// Libraries compute channels by vectors of this many.
constexpr int64_t kVector = 16;
// The multiply-adds done in the time that one element of an image takes to move: to be brought
// into the library's layout, in memory that may be new.
constexpr double kMove = 128;

double in_vectors(int64_t channels) {
  return static_cast<double>((channels + kVector - 1) / kVector * kVector);
}

// The multiply-adds that one place of one output image costs, or what takes as long.
double work_per_place(ConvPass pass, const ConvShape& s) {
  const bool input = pass == ConvPass::InputGrad;
  const double channels = in_vectors(input ? s.in_channels : s.out_channels);
  const double others = double((input ? s.out_channels : s.in_channels) / s.groups);
  const double seen = double(s.in_height * s.in_width) / double(s.out_height * s.out_width);
  return std::max(channels * others * double(s.kernel_height * s.kernel_width),
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
  part.weight = empty_plain(t.weight.sizes(), options_of(t.weight), "conv2d");
  if (!compute(part)) return false;
  float* const sum = t.weight.elements<float>();
  const float* const more = part.weight.elements<float>();
  parallel_for(t.weight.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sum[i] += more[i];
  });
  return true;
}

// What a tile has of one axis: places of the output, and the window of the input they see, which
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

Axis rows_of(const ConvShape& s) {
  return {s.in_height, s.out_height, s.kernel_height, s.stride_y, s.pad_y, s.dilation_y};
}
Axis columns_of(const ConvShape& s) {
  return {s.in_width, s.out_width, s.kernel_width, s.stride_x, s.pad_x, s.dilation_x};
}

struct Tile {
  Span y, x;
};

// The places of an image that a rectangle has, where it lies in the image, and the same in a tensor
// of the rectangle alone.
struct Overlap {
  Tensor image, part;
  bool whole;
};

Overlap overlap(const Tensor& image, const Tensor& part, int64_t top, int64_t left) {
  const int64_t y0 = std::max<int64_t>(top, 0), x0 = std::max<int64_t>(left, 0);
  const int64_t y1 = std::min(image.size(2), top + part.size(2));
  const int64_t x1 = std::min(image.size(3), left + part.size(3));
  const Dims sizes{1, part.size(1), std::max<int64_t>(y1 - y0, 0), std::max<int64_t>(x1 - x0, 0)};
  const auto at = [&](const Tensor& t, int64_t y, int64_t x) {
    const int64_t from = sizes[2] * sizes[3] == 0 ? 0 : y * t.stride(2) + x * t.stride(3);
    return alias(t, sizes, t.strides(), t.offset() + from);
  };
  return {at(image, y0, x0), at(part, y0 - top, x0 - left),
          sizes[2] == part.size(2) && sizes[3] == part.size(3)};
}

// A tensor for a rectangle of one image.
Tensor rectangle(const Tensor& image, bool channels_last, int64_t height, int64_t width) {
  const int64_t channels = image.size(1);
  const Tensor t = empty_plain({1, channels, height, width}, options_of(image), "conv2d");
  if (!channels_last) return t;
  return alias(t, t.sizes(), {t.numel(), 1, width * channels, channels}, t.offset());
}

// A copy of a rectangle of an image, with zeros where there is no image.
Tensor cut_out(const Tensor& image, bool channels_last, const Span& y, const Span& x) {
  Tensor part = rectangle(image, channels_last, y.in_size, x.in_size);
  Overlap o = overlap(image, part, y.in_begin, x.in_begin);
  if (!o.whole) zero_bytes(part.raw(), part.numel() * int64_t{sizeof(float)});
  if (o.part.numel() > 0) copy_into(o.part, o.image);
  return part;
}

// Adds a rectangle to the places of the image that it lies over.
void add_back(const Tensor& image, const Tensor& part, bool channels_last, const Span& y,
              const Span& x) {
  const Overlap o = overlap(image, part, y.in_begin, x.in_begin);
  if (o.part.numel() == 0) return;
  const int outer = channels_last ? 2 : 1, middle = channels_last ? 3 : 2;
  const int64_t lines = o.part.size(outer) * o.part.size(middle);
  const int64_t length = o.part.numel() / lines;
  const auto line = [&](const Tensor& t, int64_t i) {
    return t.elements<float>() + i / t.size(middle) * t.stride(outer) +
           i % t.size(middle) * t.stride(middle);
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
  s.in_height = tile.y.in_size;
  s.in_width = tile.x.in_size;
  s.out_height = tile.y.out_size;
  s.out_width = tile.x.out_size;
  s.pad_y = tile.y.pad;
  s.pad_x = tile.x.pad;
  return s;
}

// The part of a pass over one image that a tile has. Input gradients are added to t's.
bool run_tile(ConvPass pass, const ConvShape& s, const ConvTensors& t, const Tile& tile,
              ConvRun run) {
  const bool last = s.channels_last;
  const Span out_y{0, 0, tile.y.out_begin, tile.y.out_size, 0};
  const Span out_x{0, 0, tile.x.out_begin, tile.x.out_size, 0};
  ConvTensors part = t;
  part.x = pass == ConvPass::InputGrad ? rectangle(t.x, last, tile.y.in_size, tile.x.in_size)
                                       : cut_out(t.x, last, tile.y, tile.x);
  part.y = pass == ConvPass::Forward ? rectangle(t.y, last, tile.y.out_size, tile.x.out_size)
                                     : cut_out(t.y, last, out_y, out_x);
  if (!run(pass, shape_of(s, tile), part)) return false;
  if (pass == ConvPass::InputGrad) add_back(t.x, part.x, last, tile.y, tile.x);
  if (pass == ConvPass::Forward) {
    Overlap o = overlap(t.y, part.y, tile.y.out_begin, tile.x.out_begin);
    copy_into(o.image, o.part);
  }
  return true;
}

int64_t parts_for(double work, double limit, int64_t most) {
  return static_cast<int64_t>(std::min(std::max(1.0, std::ceil(work / limit)), double(most)));
}

// How one image is cut: whole, by rows, or by pieces of rows where one row is too much.
struct Cut {
  int64_t rows, columns;
};
Cut cut_for(ConvPass pass, const ConvShape& s, double work) {
  const double row = work_per_place(pass, s) * double(s.out_width);
  const int64_t height = s.out_height;
  const int64_t rows = parts_for(row * double(height), work * threads_for(s, height), height);
  return {rows, rows < height ? 1 : parts_for(row, work * threads_for(s, 1), s.out_width)};
}

// How many images are computed at once.
int64_t images_for(ConvPass pass, const ConvShape& s, double work) {
  const double image = work_per_place(pass, s) * double(s.out_height * s.out_width);
  return static_cast<int64_t>(std::clamp(work * threads() / image, 1.0, double(s.batch)));
}

bool image_in_tiles(ConvPass pass, const ConvShape& s, const ConvTensors& t, double work,
                    ConvRun run) {
  const auto [rows, columns] = cut_for(pass, s, work);
  if (rows * columns == 1) return run(pass, s, t);
  if (pass == ConvPass::InputGrad) zero_bytes(t.x.raw(), t.x.numel() * int64_t{sizeof(float)});
  for (int64_t i = 0; i < rows * columns; ++i) {
    stop_if_requested();
    const Tile tile{rows_of(s).part(i / columns, rows), columns_of(s).part(i % columns, columns)};
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
  const Cut cut = cut_for(pass, s, work);
  return cut.rows * cut.columns == 1;
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
