// tensor/cpu/conv/conv_direct.cpp: convolution of few channels without columns. The rows of an
// image are laid out with their padding, for a stride s as s x s images of every s-th row and
// column (phases), so that the element that a tap sees lies at one distance from each position. A
// channel of the result is then a correlation of one long row; what it computes between the rows is
// left out.
#include "tensor/cpu/conv/conv_direct.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/cpu/common/parallel.h"
#include "tensor/cpu/conv/conv_direct_simd.h"

namespace moonlet::cpu {
namespace {

namespace limits = thresholds::conv;

int64_t group_in(const ConvShape& s) { return s.in_channels / s.groups; }
int64_t group_out(const ConvShape& s) { return s.out_channels / s.groups; }
int64_t window(const ConvShape& s) { return s.kernel[1] * s.kernel[2]; }

int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

// Where a tap of the window reads in one axis: the phase of its elements, and how many of them they
// lie behind the position's own.
struct Reach {
  int64_t phase, shift;
};
Reach reach_of(const ConvShape& s, int axis, int64_t tap) {
  return {tap * s.dilation[axis] % s.stride[axis], tap * s.dilation[axis] / s.stride[axis]};
}
// How far the last tap reaches.
int64_t farthest(const ConvShape& s, int axis) {
  return (s.kernel[axis] - 1) * s.dilation[axis] / s.stride[axis];
}

// The columns of a phase that are in the image, and the first one's.
struct Columns {
  int64_t begin, end, first;
};
Columns columns_of(const ConvShape& s, int64_t phase, int64_t width) {
  const int64_t step = s.stride[2], shift = s.pad[2] - phase;
  const int64_t begin = std::clamp<int64_t>(ceil_div(shift, step), 0, width);
  const int64_t end = std::clamp<int64_t>(ceil_div(s.in[2] + shift, step), begin, width);
  return {begin, end, begin * step - shift};
}

// The rows [begin, end) of positions that are done at once, and how they lie. Phases that no tap
// reads have no index.
struct Strips {
  int64_t rows, pitch, plane;
  std::vector<int64_t> indices;  // of phases, or -1
  int64_t phases = 0;

  Strips(const ConvShape& s, int64_t size, int64_t channels, int64_t extra, int64_t width,
         int64_t element)
      : pitch(width), indices(static_cast<size_t>(s.stride[1] * s.stride[2]), -1) {
    for (int64_t i = 0; i < s.kernel[1]; ++i)
      for (int64_t j = 0; j < s.kernel[2]; ++j) {
        int64_t& index = at(s, reach_of(s, 1, i).phase, reach_of(s, 2, j).phase);
        if (index < 0) index = phases++;
      }
    const int64_t fit = limits::kDirectBytes / (element * pitch * channels);
    rows = std::clamp<int64_t>(fit, std::min(size, extra + 1), size);
    plane = (rows + extra) * pitch;
  }
  int64_t& at(const ConvShape& s, int64_t down, int64_t along) {
    return indices[static_cast<size_t>(down * s.stride[2] + along)];
  }
  int64_t at(const ConvShape& s, int64_t down, int64_t along) const {
    return indices[static_cast<size_t>(down * s.stride[2] + along)];
  }
  int64_t count(int64_t size) const { return (size + rows - 1) / rows; }
};

template <class T>
void copy_row(const T* from, int64_t step, T* to, int64_t count) {
  if (step == 1 && count > limits::kDirectRow)
    std::copy_n(from, count, to);
  else if (step == 2 && count > limits::kDirectRow)
    take_even(from, to, count);
  else
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}

// Calls body(begin, end) on ranges of the items that are worth laying tables out for.
template <class Body>
void by_ranges(int64_t items, int64_t work, Body&& body) {
  const int64_t worth = ceil_div(limits::kDirectWork, work);
  const int64_t size = std::min(worth, ceil_div(items, thread_count(items, grain_for(work))));
  parallel_for(ceil_div(items, size), 1, [&](int64_t begin, int64_t end) {
    body(begin * size, std::min(items, end * size));
  });
}

// Memory that is not set, or 0.
template <class T>
class Buffer {
 public:
  explicit Buffer(int64_t count, bool zeros = false)
      : held_(empty_plain({count}, {dtype_of<T>, {}}, "conv")) {
    if (zeros) std::fill_n(data(), count, T(0));
  }
  T* data() const { return held_.elements<T>(); }

 private:
  Tensor held_;
};

// --- Forward, and the gradient of the weight -----------------------------------------------------

// The images of a group, as the taps see them from the positions of the result.
template <class T>
class Seen {
 public:
  explicit Seen(const ConvShape& s)
      : s_(s),
        strips_(s, s.out[1], group_in(s), farthest(s, 1), s.out[2] + farthest(s, 2), sizeof(T)),
        channel_(strips_.phases * strips_.plane),
        buffer_(group_in(s) * channel_ + kDirectSlack, true) {
    for (int64_t j = 0; j < s.stride[2]; ++j) columns_.push_back(columns_of(s, j, strips_.pitch));
    for (int64_t c = 0; c < group_in(s); ++c)
      for (int64_t i = 0; i < s.kernel[1]; ++i)
        for (int64_t j = 0; j < s.kernel[2]; ++j) {
          const Reach down = reach_of(s, 1, i), along = reach_of(s, 2, j);
          offsets_.push_back(c * channel_ + strips_.at(s, down.phase, along.phase) * strips_.plane +
                             down.shift * strips_.pitch + along.shift);
        }
  }

  const Strips& strips() const { return strips_; }
  Taps taps() const { return {offsets_.data(), std::ssize(offsets_)}; }
  const T* data() const { return buffer_.data(); }

  // Lays the rows out that `rows` rows of positions from `first` see; `image` is the group's.
  void fill(const T* image, int64_t first, int64_t rows) const {
    for (int64_t c = 0; c < group_in(s_); ++c)
      for (int64_t i = 0; i < s_.stride[1]; ++i)
        for (int64_t j = 0; j < s_.stride[2]; ++j)
          if (const int64_t index = strips_.at(s_, i, j); index >= 0)
            fill_phase(image + c * s_.in[1] * s_.in[2], first, rows, i, j,
                       buffer_.data() + c * channel_ + index * strips_.plane);
  }

 private:
  // The columns beside the image stay 0.
  void fill_phase(const T* image, int64_t first, int64_t rows, int64_t down, int64_t along,
                  T* to) const {
    const Columns& columns = columns_[static_cast<size_t>(along)];
    const int64_t count = columns.end - columns.begin;
    int64_t y = first * s_.stride[1] + down - s_.pad[1];
    for (int64_t r = 0; r < rows + below_; ++r, to += strips_.pitch, y += s_.stride[1]) {
      if (y >= 0 && y < s_.in[1])
        copy_row(image + y * s_.in[2] + columns.first, s_.stride[2], to + columns.begin, count);
      else
        std::fill_n(to + columns.begin, count, T(0));
    }
  }

  const ConvShape& s_;
  const Strips strips_;
  const int64_t channel_, below_ = farthest(s_, 1);
  std::vector<int64_t> offsets_;
  std::vector<Columns> columns_;  // of the phases of a row
  Buffer<T> buffer_;
};

// Rows of results that are computed at once.
int64_t outputs_of(int64_t left) {
  return left >= kDirectOutputs ? kDirectOutputs : left >= 2 ? 2 : 1;
}

// The weights of `outputs` rows, tap by tap.
template <class T>
const T* interleaved(const T* weights, int64_t outputs, int64_t taps, std::vector<T>& room) {
  if (outputs == 1) return weights;
  room.resize(static_cast<size_t>(outputs * taps));
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t t = 0; t < taps; ++t)
      room[static_cast<size_t>(t * outputs + o)] = weights[o * taps + t];
  return room.data();
}

template <class T>
void forward(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
             Tensor& y) {
  const int64_t out_plane = s.out[1] * s.out[2], group = group_out(s);
  const Strips shared = Seen<T>(s).strips();
  const int64_t strips = shared.count(s.out[1]);
  const int64_t work = shared.rows * shared.pitch * group * group_in(s) * window(s);
  by_ranges(s.batch * s.groups * strips, work, [&](int64_t begin, int64_t end) {
    const Seen<T> seen(s);
    const int64_t pitch = shared.pitch, row = shared.plane + kDirectSlack;
    const Buffer<T> results(kDirectOutputs * row);
    std::vector<T> room;
    for (int64_t item = begin; item < end; ++item) {
      stop_if_requested();
      const int64_t first = item % strips * shared.rows, n = item / strips / s.groups,
                    g = item / strips % s.groups;
      const int64_t rows = std::min(shared.rows, s.out[1] - first);
      seen.fill(x.elements<T>() + (n * s.groups + g) * group_in(s) * s.in[1] * s.in[2], first,
                rows);
      for (int64_t o = g * group, last = o + group; o < last;) {
        const int64_t outputs = outputs_of(last - o), taps = seen.taps().count;
        correlate(outputs, seen.data(), seen.taps(),
                  interleaved(weight.elements<T>() + o * taps, outputs, taps, room),
                  bias.defined() ? bias.elements<T>() + o : nullptr, results.data(), row,
                  rows * pitch);
        for (int64_t k = 0; k < outputs; ++k, ++o) {
          T* const to = y.elements<T>() + (n * s.out_channels + o) * out_plane + first * s.out[2];
          for (int64_t r = 0; r < rows; ++r)
            copy_row(results.data() + k * row + r * pitch, 1, to + r * s.out[2], s.out[2]);
          if (s.relu) clip_at_zero(to, rows * s.out[2]);
        }
      }
    }
  });
}

// Sums of one image after the other, so that they do not depend on the number of threads.
template <class T>
void grad_of_group(const ConvShape& s, const Seen<T>& seen, const Buffer<T>& row, const T* grad,
                   const T* x, int64_t g, int64_t begin, int64_t end, std::vector<double>& sums) {
  const Strips& strips = seen.strips();
  const int64_t taps = seen.taps().count, plane = s.out[1] * s.out[2];
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t first = 0; first < s.out[1]; first += strips.rows) {
      stop_if_requested();
      const int64_t rows = std::min(strips.rows, s.out[1] - first);
      seen.fill(x + (n * s.groups + g) * group_in(s) * s.in[1] * s.in[2], first, rows);
      for (int64_t o = begin; o < end; ++o) {
        const T* const from = grad + (n * s.out_channels + o) * plane + first * s.out[2];
        for (int64_t r = 0; r < rows; ++r)
          copy_row(from + r * s.out[2], 1, row.data() + r * strips.pitch, s.out[2]);
        // Behind the last row there may be one of another strip.
        std::fill_n(row.data() + rows * strips.pitch, kDirectSlack, T(0));
        tap_sums(row.data(), seen.data(), seen.taps(), rows * strips.pitch,
                 sums.data() + (o - begin) * taps);
      }
    }
}

template <class T>
void grad_weight(const ConvShape& s, const Tensor& grad, const Tensor& x, Tensor& y) {
  const int64_t group = group_out(s), taps = group_in(s) * window(s);
  const int64_t work = s.batch * s.out[1] * s.out[2] * taps;
  by_ranges(s.out_channels, work, [&](int64_t begin, int64_t end) {
    const Seen<T> seen(s);
    const Buffer<T> row(seen.strips().rows * seen.strips().pitch + kDirectSlack, true);
    std::vector<double> sums;
    for (int64_t o = begin; o < end;) {
      const int64_t g = o / group, last = std::min(end, (g + 1) * group);
      sums.assign(static_cast<size_t>((last - o) * taps), 0.0);
      grad_of_group<T>(s, seen, row, grad.elements<T>(), x.elements<T>(), g, o, last, sums);
      std::transform(sums.begin(), sums.end(), y.elements<T>() + o * taps,
                     [](double sum) { return static_cast<T>(sum); });
      o = last;
    }
  });
}

// --- The gradient of the images ------------------------------------------------------------------

// The taps of the window that see the elements of one phase: where they read the gradients from,
// and the positions of their weights in a filter.
struct PhaseTaps {
  std::vector<int64_t> offsets, weights;
};

// The gradients of a group, as the elements of the images see them.
template <class T>
class Spread {
 public:
  explicit Spread(const ConvShape& s)
      : s_(s),
        strips_(s, ceil_div(s.in[1] + s.pad[1], s.stride[1]), group_out(s), farthest(s, 1),
                std::max(s.out[2] + farthest(s, 2), ceil_div(s.in[2] + s.pad[2], s.stride[2])),
                sizeof(T)),
        margin_(farthest(s, 2)),
        buffer_(margin_ + group_out(s) * strips_.plane + kDirectSlack, true),
        taps_(static_cast<size_t>(s.stride[1] * s.stride[2])) {
    for (int64_t j = 0; j < s.stride[2]; ++j) columns_.push_back(columns_of(s, j, strips_.pitch));
    for (int64_t o = 0; o < group_out(s); ++o)
      for (int64_t i = 0; i < s.kernel[1]; ++i)
        for (int64_t j = 0; j < s.kernel[2]; ++j) {
          const Reach down = reach_of(s, 1, i), along = reach_of(s, 2, j);
          PhaseTaps& taps = taps_[static_cast<size_t>(down.phase * s.stride[2] + along.phase)];
          taps.offsets.push_back(o * strips_.plane + (farthest(s, 1) - down.shift) * strips_.pitch -
                                 along.shift);
          taps.weights.push_back(o * group_in(s) * window(s) + i * s.kernel[2] + j);
        }
  }

  const Strips& strips() const { return strips_; }
  const T* data() const { return buffer_.data() + margin_; }
  const PhaseTaps& taps(int64_t down, int64_t along) const {
    return taps_[static_cast<size_t>(down * s_.stride[2] + along)];
  }

  const std::vector<Columns>& columns() const { return columns_; }

  // Lays the gradients out that `rows` rows of elements from `first` are seen by.
  void fill(const T* grad, int64_t first, int64_t rows) const {
    const int64_t plane = s_.out[1] * s_.out[2];
    for (int64_t o = 0; o < group_out(s_); ++o) {
      T* to = buffer_.data() + margin_ + o * strips_.plane;
      for (int64_t r = first - farthest(s_, 1); r < first + rows; ++r, to += strips_.pitch)
        if (r >= 0 && r < s_.out[1])
          copy_row(grad + o * plane + r * s_.out[2], 1, to, s_.out[2]);
        else
          std::fill_n(to, s_.out[2], T(0));
    }
  }

 private:
  const ConvShape& s_;
  const Strips strips_;
  const int64_t margin_;
  const Buffer<T> buffer_;
  std::vector<PhaseTaps> taps_;
  std::vector<Columns> columns_;  // of the phases of a row
};

// Some rows of the images, from their phases.
template <class T>
void gather_row(const ConvShape& s, const std::vector<Columns>& of, const T* phases, int64_t step,
                T* to) {
  if (s.stride[2] == 2) {
    // The first column is of the phase that the padding leaves over.
    const Columns &even = of[0], &odd = of[1];
    const bool swapped = even.first > odd.first;
    const Columns &a = swapped ? odd : even, &b = swapped ? even : odd;
    const T* const pa = phases + (swapped ? step : 0) + a.begin;
    const T* const pb = phases + (swapped ? 0 : step) + b.begin;
    const int64_t pairs = b.end - b.begin;
    interleave(pa, pb, to, pairs);
    if (a.end - a.begin > pairs) to[2 * pairs] = pa[pairs];
    return;
  }
  for (const Columns& columns : of) {
    if (s.stride[2] == 1)
      copy_row(phases + columns.begin, 1, to, columns.end - columns.begin);
    else
      for (int64_t i = columns.begin; i < columns.end; ++i)
        to[columns.first + (i - columns.begin) * s.stride[2]] = phases[i];
    phases += step;
  }
}

// The filters of `outputs` input channels for the taps of a phase.
template <class T>
const T* phase_weights(const T* filters, const PhaseTaps& taps, int64_t window, int64_t outputs,
                       std::vector<T>& room) {
  room.resize(taps.weights.size() * static_cast<size_t>(outputs));
  auto to = room.begin();
  for (const int64_t tap : taps.weights)
    for (int64_t c = 0; c < outputs; ++c) *to++ = filters[tap + c * window];
  return room.data();
}

// One strip of the channels [channel, channel + outputs) of one group of one image.
template <class T>
void spread_channels(const ConvShape& s, const Spread<T>& spread, const T* filters, const T* bias,
                     int64_t outputs, int64_t first, int64_t rows, const Buffer<T>& results,
                     std::vector<T>& room, T* image) {
  const int64_t pitch = spread.strips().pitch, row = spread.strips().plane + kDirectSlack;
  const int64_t phase = kDirectOutputs * row;
  for (int64_t i = 0; i < s.stride[1]; ++i) {
    for (int64_t j = 0; j < s.stride[2]; ++j) {
      const PhaseTaps& taps = spread.taps(i, j);
      correlate(outputs, spread.data(), {taps.offsets.data(), std::ssize(taps.offsets)},
                phase_weights(filters, taps, window(s), outputs, room), bias,
                results.data() + j * phase, row, rows * pitch);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t y = (first + r) * s.stride[1] + i - s.pad[1];
      if (y < 0 || y >= s.in[1]) continue;
      for (int64_t c = 0; c < outputs; ++c)
        gather_row(s, spread.columns(), results.data() + c * row + r * pitch, phase,
                   image + (c * s.in[1] + y) * s.in[2]);
    }
  }
}

template <class T>
void transpose(const ConvShape& s, const Tensor& grad, const Tensor& weight, const Tensor& bias,
               Tensor& y) {
  const int64_t group = group_in(s), plane = s.in[1] * s.in[2];
  const Strips shared = Spread<T>(s).strips();
  const int64_t size = ceil_div(s.in[1] + s.pad[1], s.stride[1]), strips = shared.count(size);
  const int64_t work = shared.rows * shared.pitch * group * group_out(s) * window(s);
  by_ranges(s.batch * s.groups * strips, work, [&](int64_t begin, int64_t end) {
    const Spread<T> spread(s);
    const Buffer<T> results(s.stride[2] * kDirectOutputs * (shared.plane + kDirectSlack));
    std::vector<T> room;
    for (int64_t item = begin; item < end; ++item) {
      stop_if_requested();
      const int64_t first = item % strips * shared.rows, n = item / strips / s.groups,
                    g = item / strips % s.groups;
      const int64_t rows = std::min(shared.rows, size - first);
      const int64_t o = g * group_out(s);
      spread.fill(grad.elements<T>() + (n * s.out_channels + o) * s.out[1] * s.out[2], first, rows);
      for (int64_t c = 0; c < group;) {
        const int64_t outputs = outputs_of(group - c), channel = g * group + c;
        spread_channels(s, spread, weight.elements<T>() + (o * group + c) * window(s),
                        bias.defined() ? bias.elements<T>() + channel : nullptr, outputs, first,
                        rows, results, room,
                        y.elements<T>() + (n * s.in_channels + channel) * plane);
        c += outputs;
      }
    }
  });
}

// --- The passes ----------------------------------------------------------------------------------

constexpr DTypeSet kDirectTypes = bit(DType::Float32) | bit(DType::Float64);

template <class T>
bool is_finite(const Tensor& t) {
  const T* const values = t.elements<T>();
  return std::all_of(values, values + t.numel(), [](T v) { return std::isfinite(v); });
}

}  // namespace

bool takes_direct(const ConvShape& s, DType dtype) {
  const bool flat = s.in[0] == 1 && s.out[0] == 1 && s.kernel[0] == 1 && s.pad[0] == 0;
  return flat && (kDirectTypes & bit(dtype)) != 0 && s.groups > 1 && !s.is_pointwise() &&
         group_in(s) <= limits::kDirectChannels && group_out(s) <= limits::kDirectChannels;
}

// oneDNN computes some channels at once, in a layout of its own: faster for small images, but large
// ones go through memory twice more. It pads channels of groups to a vector.
bool prefers_direct(ConvPass pass, const ConvShape& s, DType dtype) {
  if (!takes_direct(s, dtype)) return false;
  if (dtype == DType::Float64) return true;
  const int64_t plane = volume(s.in), elements = s.batch * s.in_channels * plane;
  if (group_in(s) > 1 && group_out(s) > 1) return plane >= limits::kDirectGroupedPlane;
  const int64_t least =
      pass == ConvPass::InputGrad ? limits::kDirectGradPlane : limits::kDirectPlane;
  return plane >= least && elements >= limits::kDirectElements;
}

void conv_direct(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 Tensor& y) {
  visit<kDirectTypes>(y.dtype(), [&]<class T>() { forward<T>(s, x, weight, bias, y); });
}

bool conv_transpose_direct(const ConvShape& s, const Tensor& grad, const Tensor& weight,
                           const Tensor& bias, Tensor& y) {
  bool done = false;
  visit<kDirectTypes>(y.dtype(), [&]<class T>() {
    if (!is_finite<T>(weight)) return;
    transpose<T>(s, grad, weight, bias, y);
    done = true;
  });
  return done;
}

bool conv_grad_weight_direct(const ConvShape& s, const Tensor& grad, const Tensor& x, Tensor& y) {
  bool done = false;
  visit<kDirectTypes>(y.dtype(), [&]<class T>() {
    grad_weight<T>(s, grad, x, y);
    done = is_finite<T>(y);
  });
  return done;
}

}  // namespace moonlet::cpu
