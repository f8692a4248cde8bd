// tests/cpp/cudnn_recurrent_test.cpp: the emulation of cuDNN's recurrent networks refuses what the
// library refuses, and takes a reserve once for each of the gradients.
#include "tests/cpp/catch2.h"

#include <cudnn.h>

#include <vector>

#include "cuda_runtime.h"

namespace {

constexpr int kFeatures = 3, kSize = 4, kSequences = 2, kRows = 5;

/// Device memory of so many floats, all of one value.
class Floats {
 public:
  explicit Floats(std::size_t count, float value = 0.1f) : count_(count) {
    REQUIRE(cudaMalloc(&data_, bytes() + 16) == cudaSuccess);
    const std::vector<float> values(count, value);
    REQUIRE(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  Floats(const Floats&) = delete;
  ~Floats() { cudaFree(data_); }
  float* get() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(float); }
  std::vector<float> read() const {
    std::vector<float> out(count_);
    REQUIRE(cudaMemcpy(out.data(), data_, bytes(), cudaMemcpyDeviceToHost) == cudaSuccess);
    return out;
  }

 private:
  float* data_ = nullptr;
  std::size_t count_;
};

/// A GRU of one layer over sequences of 3 and 2 steps.
struct Network {
  cudnnHandle_t handle = nullptr;
  cudnnRNNDescriptor_t network = nullptr;
  cudnnRNNDataDescriptor_t x = nullptr, y = nullptr;
  cudnnTensorDescriptor_t h = nullptr;
  std::size_t weights = 0, work = 0, reserve = 0;

  Network() {
    REQUIRE(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnCreateRNNDescriptor(&network) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnCreateRNNDataDescriptor(&x) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnCreateRNNDataDescriptor(&y) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnCreateTensorDescriptor(&h) == CUDNN_STATUS_SUCCESS);
    REQUIRE(set(CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, kSize) == CUDNN_STATUS_SUCCESS);
    REQUIRE(set_data(x, kFeatures, {3, 2}) == CUDNN_STATUS_SUCCESS);
    REQUIRE(set_data(y, kSize, {3, 2}) == CUDNN_STATUS_SUCCESS);
    const int sizes[] = {1, kSequences, kSize}, strides[] = {kSequences * kSize, kSize, 1};
    REQUIRE(cudnnSetTensorNdDescriptor(h, CUDNN_DATA_FLOAT, 3, sizes, strides) ==
            CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnGetRNNWeightSpaceSize(handle, network, &weights) == CUDNN_STATUS_SUCCESS);
    REQUIRE(cudnnGetRNNTempSpaceSizes(handle, network, CUDNN_FWD_MODE_TRAINING, x, &work,
                                      &reserve) == CUDNN_STATUS_SUCCESS);
  }
  Network(const Network&) = delete;
  ~Network() {
    cudnnDestroyTensorDescriptor(h);
    cudnnDestroyRNNDataDescriptor(y);
    cudnnDestroyRNNDataDescriptor(x);
    cudnnDestroyRNNDescriptor(network);
    cudnnDestroy(handle);
  }
  cudnnStatus_t set(cudnnDataType_t type, cudnnDataType_t precision, int projected,
                    cudnnRNNAlgo_t algorithm = CUDNN_RNN_ALGO_STANDARD) const {
    return cudnnSetRNNDescriptor_v8(network, algorithm, CUDNN_GRU, CUDNN_RNN_DOUBLE_BIAS,
                                    CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, type, precision,
                                    CUDNN_DEFAULT_MATH, kFeatures, kSize, projected, 1, nullptr,
                                    CUDNN_RNN_PADDED_IO_DISABLED);
  }
  static cudnnStatus_t set_data(cudnnRNNDataDescriptor_t data, int width,
                                const std::vector<int>& lengths) {
    return cudnnSetRNNDataDescriptor(data, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                                     lengths[0], static_cast<int>(lengths.size()), width,
                                     lengths.data(), nullptr);
  }
};

/// What its calls are given.
struct Memory {
  Floats x{kRows * kFeatures}, y{kRows * kSize}, hx{kSequences * kSize}, hy{kSequences * kSize},
      weights, gradients, dy{kRows * kSize}, dx{kRows * kFeatures}, dh{kSequences * kSize}, work,
      reserve;
  explicit Memory(const Network& n)
      : weights(n.weights / 4),
        gradients(n.weights / 4, 0),
        work(n.work / 4 + 1),
        reserve(n.reserve / 4 + 1) {}
};

cudnnStatus_t forward(const Network& n, const Memory& m, std::size_t work, std::size_t reserve,
                      const float* hx, std::size_t weights) {
  return cudnnRNNForward(n.handle, n.network, CUDNN_FWD_MODE_TRAINING, nullptr, n.x, m.x.get(), n.y,
                         m.y.get(), n.h, hx, m.hy.get(), n.h, nullptr, nullptr, weights,
                         m.weights.get(), work, m.work.get(), reserve, m.reserve.get());
}
cudnnStatus_t forward(const Network& n, const Memory& m) {
  return forward(n, m, n.work, n.reserve, m.hx.get(), n.weights);
}
cudnnStatus_t back(const Network& n, const Memory& m) {
  return cudnnRNNBackwardData_v8(n.handle, n.network, nullptr, n.y, m.y.get(), m.dy.get(), n.x,
                                 m.dx.get(), n.h, m.hx.get(), nullptr, m.dh.get(), n.h, nullptr,
                                 nullptr, nullptr, n.weights, m.weights.get(), n.work, m.work.get(),
                                 n.reserve, m.reserve.get());
}
cudnnStatus_t back_to_weights(const Network& n, const Memory& m,
                              cudnnWgradMode_t how = CUDNN_WGRAD_MODE_ADD) {
  return cudnnRNNBackwardWeights_v8(n.handle, n.network, how, nullptr, n.x, m.x.get(), n.h,
                                    m.hx.get(), n.y, m.y.get(), n.weights, m.gradients.get(),
                                    n.work, m.work.get(), n.reserve, m.reserve.get());
}

/// The device has failed as it does of a reserve that is not what it should be.
void require_wrong_reserve() {
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure);
  CHECK(cudaDeviceReset() == cudaSuccess);
  cudaGetLastError();
}

}  // namespace

TEST_CASE("a recurrent network of cuDNN's goes forward and back") {
  const Network n;
  // Rows of three gates, of the input and of the state, and two biases.
  CHECK(n.weights == 4u * 3 * kSize * (kFeatures + kSize + 2));
  const Memory m(n);
  REQUIRE(forward(n, m) == CUDNN_STATUS_SUCCESS);
  REQUIRE(back(n, m) == CUDNN_STATUS_SUCCESS);
  REQUIRE(back_to_weights(n, m) == CUDNN_STATUS_SUCCESS);
  // The last state of each sequence is its last row.
  const std::vector<float> y = m.y.read(), last = m.hy.read();
  CHECK(last[0] == y[4 * kSize]);
  CHECK(last[kSize] == y[3 * kSize]);
  const std::vector<float> once = m.gradients.read();
  CHECK(once[0] != 0.0f);
  // Gradients of the weights add to what is there.
  REQUIRE(forward(n, m) == CUDNN_STATUS_SUCCESS);
  REQUIRE(back(n, m) == CUDNN_STATUS_SUCCESS);
  REQUIRE(back_to_weights(n, m) == CUDNN_STATUS_SUCCESS);
  CHECK(m.gradients.read()[0] == 2 * once[0]);
}

TEST_CASE("a reserve is that of the call before") {
  const Network n;
  {
    const Memory m(n);
    REQUIRE(back(n, m) == CUDNN_STATUS_SUCCESS);
    require_wrong_reserve();
  }
  {
    const Memory m(n);
    REQUIRE(forward(n, m) == CUDNN_STATUS_SUCCESS);
    REQUIRE(back_to_weights(n, m) == CUDNN_STATUS_SUCCESS);
    require_wrong_reserve();
  }
  const Memory m(n);
  REQUIRE(forward(n, m) == CUDNN_STATUS_SUCCESS);
  REQUIRE(back(n, m) == CUDNN_STATUS_SUCCESS);
  REQUIRE(back(n, m) == CUDNN_STATUS_SUCCESS);
  require_wrong_reserve();
}

TEST_CASE("recurrent networks of cuDNN's refuse what does not fit") {
  const Network n;
  const Memory m(n);
  const auto hx = m.hx.get();
  CHECK(forward(n, m, n.work - 1, n.reserve, hx, n.weights) == CUDNN_STATUS_BAD_PARAM);
  CHECK(forward(n, m, n.work, n.reserve - 1, hx, n.weights) == CUDNN_STATUS_BAD_PARAM);
  CHECK(forward(n, m, n.work, n.reserve, hx, n.weights - 4) == CUDNN_STATUS_BAD_PARAM);
  CHECK(forward(n, m, n.work, n.reserve, nullptr, n.weights) == CUDNN_STATUS_BAD_PARAM);
  CHECK(forward(n, m, n.work, n.reserve, hx + 1, n.weights) ==
        CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  CHECK(back_to_weights(n, m, CUDNN_WGRAD_MODE_SET) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(Network::set_data(n.x, kFeatures, {2, 3}) == CUDNN_STATUS_BAD_PARAM);
  CHECK(Network::set_data(n.x, kFeatures, {3, 0}) == CUDNN_STATUS_BAD_PARAM);
  REQUIRE(Network::set_data(n.x, kFeatures, {3, 3}) == CUDNN_STATUS_SUCCESS);
  CHECK(forward(n, m) == CUDNN_STATUS_BAD_PARAM);
  std::size_t bytes = 0;
  CHECK(cudnnGetRNNTempSpaceSizes(n.handle, n.network, CUDNN_FWD_MODE_TRAINING, n.y, &bytes,
                                  &bytes) == CUDNN_STATUS_BAD_PARAM);
  CHECK(n.set(CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, kSize) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(n.set(CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, kSize - 1) == CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(n.set(CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, kSize + 1) == CUDNN_STATUS_BAD_PARAM);
  CHECK(n.set(CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, kSize, CUDNN_RNN_ALGO_PERSIST_STATIC) ==
        CUDNN_STATUS_NOT_SUPPORTED);
}
