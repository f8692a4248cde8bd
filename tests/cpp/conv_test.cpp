// tests/cpp/conv_test.cpp: the two implementations of convolution against each other, whole and by
// parts, and the adjoint relation between convolution and its gradients.
#include "tests/cpp/catch2.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "tensor/cpu/conv/conv_direct.h"
#include "tensor/cpu/conv/conv_parts.h"
#include "tensor/runtime/interrupt.h"
#include "tensor/runtime/threads.h"

using namespace moonlet;

namespace {
Tensor filled(const Dims& sizes, DType dtype) {
  Tensor t = empty_plain(sizes, {dtype, {}});
  visit<dtypes::floating>(dtype, [&]<class T>() {
    for (int64_t i = 0; i < t.numel(); ++i)
      t.data<T>()[i] = static_cast<T>(std::sin(static_cast<float>(i) * 1.7f));
  });
  return t;
}

double inner(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.numel(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

// Relative to the largest value where that is above 1.
double largest_difference(const Tensor& a, const Tensor& b) {
  double most = 0, largest = 1;
  for (int64_t i = 0; i < a.numel(); ++i) {
    most = std::max<double>(most, std::abs(a.data<float>()[i] - b.data<float>()[i]));
    largest = std::max<double>(largest, std::abs(a.data<float>()[i]));
  }
  return most / largest;
}

using Axes = cpu::ConvShape::Axes;

// The shape of a convolution with 2 images, so many channels and what fits into the input.
cpu::ConvShape shape_for(int64_t groups, int64_t in_channels, int64_t out_channels, const Axes& in,
                         const Axes& kernel, const Axes& stride, const Axes& pad,
                         const Axes& dilation) {
  Axes out;
  for (int i = 0; i < 3; ++i)
    out[i] = (in[i] + 2 * pad[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
  return {2, groups, in_channels, out_channels, in, out, kernel, stride, pad, dilation};
}

// Of images, or of volumes of a depth.
cpu::ConvShape shape(int64_t groups, int64_t stride, int64_t pad, int64_t dilation,
                     bool deep = false) {
  const int64_t depth = deep ? 7 : 1, kernel = deep ? 3 : 1;
  const auto axes = [deep](int64_t n, int64_t flat) { return Axes{deep ? n : flat, n, n}; };
  return shape_for(groups, 4, 6, {depth, 9, 9}, {kernel, 3, 3}, axes(stride, 1), axes(pad, 0),
                   axes(dilation, 1));
}

// Images and volumes with and without groups, strides, padding and dilation.
std::vector<cpu::ConvShape> plain_shapes() {
  std::vector<cpu::ConvShape> out;
  for (const bool deep : {false, true}) {
    out.push_back(shape(1, 1, 0, 1, deep));
    out.push_back(shape(2, 2, 1, 1, deep));
    out.push_back(shape(1, 1, 2, 2, deep));
  }
  // Windows of one position, which need no columns, and one row of many pieces.
  out.push_back(shape_for(2, 4, 6, {2, 5, 4}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}));
  out.push_back(shape_for(1, 4, 6, {1, 1, 20000}, {1, 1, 5}, {1, 1, 1}, {0, 0, 2}, {1, 1, 1}));
  out.push_back(shape_for(1, 4, 6, {1, 70, 90}, {1, 3, 2}, {1, 1, 2}, {0, 4, 3}, {1, 2, 3}));
  return out;
}

struct Arguments {
  Tensor x, weight, grad;
};
Arguments arguments(const cpu::ConvShape& s, DType dtype) {
  const auto volumes = [dtype](int64_t n, int64_t c, const Axes& a) {
    return filled({n, c, a[0], a[1], a[2]}, dtype);
  };
  return {volumes(s.batch, s.in_channels, s.in),
          volumes(s.out_channels, s.in_channels / s.groups, s.kernel),
          volumes(s.batch, s.out_channels, s.out)};
}
}  // namespace

TEST_CASE("the gradients of a convolution are its adjoints") {
  for (const auto& s : plain_shapes()) {
    const auto a = arguments(s, DType::Float64);
    Tensor y = empty_plain(a.grad.sizes(), options_of(a.grad)),
           gx = empty_plain(a.x.sizes(), options_of(a.x)),
           gw = empty_plain(a.weight.sizes(), options_of(a.weight));
    cpu::conv_gemm(s, a.x, a.weight, {}, y);
    cpu::conv_transpose_gemm(s, a.grad, a.weight, {}, gx);
    cpu::conv_grad_weight_gemm(s, a.grad, a.x, gw);
    CHECK(inner(gx, a.x) == Approx(inner(y, a.grad)));
    CHECK(inner(gw, a.weight) == Approx(inner(y, a.grad)));
  }
}

TEST_CASE("oneDNN and the built-in convolution agree") {
  for (const auto& s : plain_shapes()) {
    const auto a = arguments(s, DType::Float32);
    const Tensor bias = filled({s.out_channels}, DType::Float32);
    Tensor y = empty_plain(a.grad.sizes(), options_of(a.grad)),
           gx = empty_plain(a.x.sizes(), options_of(a.x)),
           gw = empty_plain(a.weight.sizes(), options_of(a.weight));
    Tensor y2 = empty_plain(y.sizes(), options_of(y)),
           gx2 = empty_plain(gx.sizes(), options_of(gx)),
           gw2 = empty_plain(gw.sizes(), options_of(gw));
    cpu::conv_gemm(s, a.x, a.weight, bias, y);
    cpu::conv_transpose_gemm(s, a.grad, a.weight, {}, gx);
    cpu::conv_grad_weight_gemm(s, a.grad, a.x, gw);
    if (cpu::conv_onednn(s, a.x, a.weight, bias, y2)) CHECK(largest_difference(y, y2) < 1e-4);
    if (cpu::conv_transpose_onednn(s, a.grad, a.weight, gx2))
      CHECK(largest_difference(gx, gx2) < 1e-4);
    if (cpu::conv_grad_weight_onednn(s, a.grad, a.x, gw2))
      CHECK(largest_difference(gw, gw2) < 1e-4);
  }
}

namespace {

constexpr cpu::ConvPass kPasses[] = {cpu::ConvPass::Forward, cpu::ConvPass::InputGrad,
                                     cpu::ConvPass::WeightGrad};

// What the runs of run_by_gemm are counted in; the last of `runs_to_stop` makes a request to stop.
int runs = 0, runs_to_stop = 0;
const float* first_result = nullptr;

// run_by_gemm has no implementation for heights of the output from the first to the second.
std::pair<int64_t, int64_t> refused{0, 0};

Tensor& result_of(cpu::ConvPass pass, cpu::ConvTensors& t) {
  if (pass == cpu::ConvPass::Forward) return t.y;
  return pass == cpu::ConvPass::InputGrad ? t.x : t.weight;
}

bool run_by_gemm(cpu::ConvPass pass, const cpu::ConvShape& s, const cpu::ConvTensors& t) {
  if (s.out[1] >= refused.first && s.out[1] <= refused.second) return false;
  cpu::ConvTensors own = t;
  Tensor& result = result_of(pass, own);
  if (runs++ == 0) first_result = result.data<float>();
  if (runs == runs_to_stop) execution.stop->request("stopped by the test");
  if (pass == cpu::ConvPass::Forward) cpu::conv_gemm(s, t.x, t.weight, t.bias, result);
  if (pass == cpu::ConvPass::InputGrad) cpu::conv_transpose_gemm(s, t.y, t.weight, {}, result);
  if (pass == cpu::ConvPass::WeightGrad) cpu::conv_grad_weight_gemm(s, t.y, t.x, result);
  return true;
}

bool run_by_onednn(cpu::ConvPass pass, const cpu::ConvShape& s, cpu::ConvTensors& t, double work) {
  if (pass == cpu::ConvPass::Forward) return cpu::conv_onednn(s, t.x, t.weight, t.bias, t.y, work);
  if (pass == cpu::ConvPass::InputGrad)
    return cpu::conv_transpose_onednn(s, t.y, t.weight, t.x, work);
  return cpu::conv_grad_weight_onednn(s, t.y, t.x, t.weight, work);
}

// Other heights than widths, with a few channels or `wider` times as many. Padding goes beyond
// windows, strides leave positions out, and images have positions to the right and below that no
// window sees.
std::vector<cpu::ConvShape> uneven_shapes(int64_t wider = 1) {
  const auto deep = [wider](int64_t groups, const Axes& in, const Axes& kernel, const Axes& stride,
                            const Axes& pad, const Axes& dilation) {
    return shape_for(groups, 4 * wider, 8 * wider, in, kernel, stride, pad, dilation);
  };
  const auto flat = [deep](int64_t groups, int64_t height, int64_t width, const Dims& kernel,
                           const Dims& stride, const Dims& pad, const Dims& dilation) {
    return deep(groups, {1, height, width}, {1, kernel[0], kernel[1]}, {1, stride[0], stride[1]},
                {0, pad[0], pad[1]}, {1, dilation[0], dilation[1]});
  };
  return {flat(1, 13, 17, {3, 5}, {1, 1}, {1, 2}, {1, 1}),
          flat(2, 14, 11, {3, 2}, {2, 3}, {0, 1}, {1, 1}),
          flat(4, 12, 15, {2, 3}, {1, 2}, {3, 4}, {3, 2}),
          flat(1, 9, 10, {1, 1}, {3, 2}, {2, 0}, {1, 1}),
          flat(1, 1, 61, {1, 4}, {1, 3}, {0, 7}, {1, 2}),
          flat(1, 1, 83, {1, 5}, {1, 2}, {0, 2}, {1, 1}),
          flat(2, 47, 1, {5, 1}, {2, 1}, {6, 0}, {1, 1}),
          flat(2, 31, 7, {3, 1}, {1, 1}, {1, 0}, {2, 1}),
          deep(1, {5, 6, 4}, {3, 2, 3}, {1, 1, 1}, {1, 0, 2}, {1, 2, 1}),
          deep(2, {7, 4, 5}, {2, 3, 1}, {2, 1, 2}, {3, 1, 0}, {3, 1, 1}),
          deep(4, {9, 1, 3}, {4, 1, 2}, {1, 1, 1}, {0, 0, 1}, {2, 1, 1})};
}

// Tensors of the shape with the images in its layout; the result holds what is not to stay.
cpu::ConvTensors tensors_of(const cpu::ConvShape& s, bool bias) {
  const auto a = arguments(s, DType::Float32);
  const auto laid_out = [&](const Tensor& t) {
    if (!s.channels_last) return t;
    return alias(t, t.sizes(), format_strides(MemoryFormat::ChannelsLast3d, t.sizes(), "test"), 0);
  };
  return {laid_out(a.x), a.weight, bias ? filled({s.out_channels}, DType::Float32) : Tensor(),
          laid_out(a.grad)};
}

double difference_by_storage(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (int64_t i = 0; i < a.numel(); ++i)
    most = std::max<double>(most, std::abs(a.elements<float>()[i] - b.elements<float>()[i]));
  return most;
}

}  // namespace

TEST_CASE("a convolution by parts is that of the whole") {
  for (const auto& s : uneven_shapes())
    for (const auto pass : kPasses) {
      const bool bias = pass == cpu::ConvPass::Forward;
      cpu::ConvTensors whole = tensors_of(s, bias);
      run_by_gemm(pass, s, whole);
      int before = 0;
      for (const double work : {1e9, 1e5, 2e4, 1.0}) {
        cpu::ConvTensors t = tensors_of(s, bias);
        runs = 0;
        CHECK(cpu::conv_in_parts(pass, s, t, work, run_by_gemm));
        CHECK(largest_difference(result_of(pass, t), result_of(pass, whole)) < 1e-4);
        CHECK(runs >= before);
        before = runs;
        if (work == 1e9) {
          CHECK(runs == 1);
          CHECK(first_result == result_of(pass, t).data<float>());
        }
      }
      CHECK(runs == s.batch * cpu::volume(s.out));
    }
}

TEST_CASE("oneDNN computes convolutions by parts in both memory formats") {
  for (auto s : uneven_shapes(8))
    for (const bool last : {false, true})
      for (const auto pass : kPasses) {
        s.channels_last = last;
        const bool bias = pass == cpu::ConvPass::Forward;
        cpu::ConvTensors whole = tensors_of(s, bias);
        if (!run_by_onednn(pass, s, whole, cpu::kConvWork)) continue;
        for (const double work : {1e5, 2e4}) {
          cpu::ConvTensors t = tensors_of(s, bias);
          if (run_by_onednn(pass, s, t, work))
            CHECK(difference_by_storage(result_of(pass, t), result_of(pass, whole)) < 1e-3);
        }
      }
}

TEST_CASE("an image whose tiles have no implementation is computed whole") {
  const auto s = uneven_shapes()[1];
  const int threads = num_threads();
  set_num_threads(1);
  for (const auto pass : kPasses) {
    cpu::ConvTensors whole = tensors_of(s, false), t = tensors_of(s, false);
    run_by_gemm(pass, s, whole);
    // Of 6 rows the first tile gets 1 and the next 2.
    runs = 0;
    refused = {2, 2};
    CHECK(cpu::conv_in_parts(pass, s, t, 1e5, run_by_gemm));
    CHECK(runs == 2 * s.batch);
    CHECK(largest_difference(result_of(pass, t), result_of(pass, whole)) < 1e-4);
    refused = {2, 6};
    CHECK_FALSE(cpu::conv_in_parts(pass, s, t, 1e5, run_by_gemm));
    refused = {0, 0};
  }
  set_num_threads(threads);
}

TEST_CASE("a convolution stops between two of its parts") {
  const auto s = uneven_shapes()[0];
  StopFlag flag;
  StopFlag* const before = execution.stop;
  execution.stop = &flag;
  runs_to_stop = 3;
  for (const auto pass : kPasses) {
    cpu::ConvTensors t = tensors_of(s, false);
    runs = 0;
    CHECK_THROWS_AS(cpu::conv_in_parts(pass, s, t, 1, run_by_gemm), Interrupted);
    CHECK(runs == runs_to_stop);
    CHECK_FALSE(flag.requested());
  }
  runs_to_stop = 0;
  execution.stop = before;
}

namespace {
// The passes of a grouped convolution by direct loops and by products.
template <class T>
void check_direct(int64_t groups, int64_t ratio, const Axes& in, const Axes& kernel,
                  const Axes& stride, const Axes& pad, const Axes& dilation) {
  const DType dtype = dtype_of<T>;
  const cpu::ConvShape s =
      shape_for(groups, 2 * groups, ratio * groups, in, kernel, stride, pad, dilation);
  CAPTURE(groups, ratio, in[1], in[2], kernel[1], kernel[2], stride[1], stride[2], pad[1], pad[2],
          dilation[1], dilation[2]);
  REQUIRE(cpu::takes_direct(s, dtype));
  const Tensor x = filled({2, s.in_channels, 1, in[1], in[2]}, dtype);
  const Tensor w = filled({s.out_channels, 2, 1, kernel[1], kernel[2]}, dtype);
  const Tensor g = filled({2, s.out_channels, 1, s.out[1], s.out[2]}, dtype);
  const Tensor by_out = filled({s.out_channels}, dtype), by_in = filled({s.in_channels}, dtype);
  Tensor y[2], gx[2], gw[2];
  for (int i = 0; i < 2; ++i) {
    y[i] = empty_plain(g.sizes(), {dtype, {}});
    gx[i] = empty_plain(x.sizes(), {dtype, {}});
    gw[i] = empty_plain(w.sizes(), {dtype, {}});
  }
  cpu::conv_direct(s, x, w, by_out, y[0]);
  cpu::conv_gemm(s, x, w, by_out, y[1]);
  REQUIRE(cpu::conv_transpose_direct(s, g, w, by_in, gx[0]));
  cpu::conv_transpose_gemm(s, g, w, by_in, gx[1]);
  REQUIRE(cpu::conv_grad_weight_direct(s, g, x, gw[0]));
  cpu::conv_grad_weight_gemm(s, g, x, gw[1]);
  // Vectors of fewer lanes add longer sums in each.
  const double bound = dtype == DType::Float32 ? 1e-4 : 1e-12;
  for (const Tensor* const pair : {y, gx, gw}) {
    double most = 0, largest = 1;
    for (int64_t i = 0; i < pair[0].numel(); ++i) {
      const double expected = pair[1].data<T>()[i];
      most = std::max(most, std::abs(pair[0].data<T>()[i] - expected));
      largest = std::max(largest, std::abs(expected));
    }
    CHECK(most < bound * largest);
  }
}
}  // namespace

TEST_CASE("direct convolution of few channels equals products") {
  for (int64_t stride : {1, 2, 3})
    for (int64_t pad : {0, 1, 3})
      for (int64_t dilation : {1, 2}) {
        const Axes strides{1, stride, 4 - stride}, pads{0, pad, 3 - pad},
            steps{1, 3 - dilation, dilation};
        check_direct<float>(3, 4, {1, 13, 22}, {1, 3, 2}, strides, pads, steps);
        check_direct<double>(2, 3, {1, 9, 9}, {1, 2, 5}, strides, pads, steps);
        check_direct<float>(2, 1, {1, 1, 1500}, {1, 1, 4}, strides, pads, steps);
      }
  // Several strips of rows.
  check_direct<float>(2, 2, {1, 150, 131}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1});
  check_direct<float>(2, 1, {1, 251, 230}, {1, 5, 3}, {1, 2, 2}, {0, 2, 1}, {1, 1, 1});
}

TEST_CASE("direct gradients leave numbers that are not finite to products") {
  const cpu::ConvShape s =
      shape_for(2, 2, 2, {1, 5, 5}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1});
  const Tensor w = filled({2, 1, 1, 3, 3}, DType::Float32);
  const Tensor x = filled({2, 2, 1, 5, 5}, DType::Float32), g = filled(x.sizes(), DType::Float32);
  Tensor y = empty_plain(x.sizes(), {}), gw = empty_plain(w.sizes(), {});
  w.data<float>()[4] = x.data<float>()[4] = std::numeric_limits<float>::infinity();
  CHECK_FALSE(cpu::conv_transpose_direct(s, g, w, {}, y));
  CHECK_FALSE(cpu::conv_grad_weight_direct(s, g, x, gw));
}
