// cuda/libraries/cudnn_ways.h: the ways in which cuDNN can compute something, tried from the best
// one on, each in the memory that it works in; and their order by the time that they take.
#pragma once

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "cuda/libraries/cudnn_library.h"

namespace moonlet::cuda::cudnn {

inline constexpr size_t kMostWorkspace = size_t{1} << 30;  // bytes that a way may work in

enum class Outcome { Done, NoMemory, NoWay };

// compute(workspace) in that many bytes.
template <class Compute>
Outcome attempt(const Call& call, size_t bytes, Compute&& compute) {
  try {
    const Tensor workspace = call.scratch({static_cast<int64_t>(bytes)}, DType::UInt8);
    return went_well(compute(workspace.raw()), call.op()) ? Outcome::Done : Outcome::NoWay;
  } catch (const OutOfMemory&) {
    // Another one may work in less.
    return Outcome::NoMemory;
  }
}

// Computes by the first of the ways that does; those that cannot at all are dropped.
template <class Way, class Try>
bool take_first(std::vector<Way>& ways, Try&& try_one) {
  for (auto it = ways.begin(); it != ways.end();) {
    const Outcome outcome = try_one(*it);
    if (outcome == Outcome::Done) return true;
    it = outcome == Outcome::NoWay ? ways.erase(it) : std::next(it);
  }
  return false;
}

class Moment {
 public:
  explicit Moment(const char* op) { ensure(cudaEventCreate(&event_), op); }
  ~Moment() { cudaEventDestroy(event_); }
  Moment(const Moment&) = delete;
  Moment& operator=(const Moment&) = delete;
  void record(const Call& call) { ensure(cudaEventRecord(event_, call.stream()), call.op()); }
  float until(const Moment& end, const Call& call) const {
    float out = 0;
    ensure(cudaEventElapsedTime(&out, event_, end.event_), call.op());
    return out;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Sorts the first `limit` ways, or with 0 all, by the time that they take; those that cannot are
// dropped.
template <class Way, class Try>
void sort_by_time(const Call& call, std::vector<Way>& ways, int32_t limit, Try&& try_one) {
  std::vector<std::pair<float, Way>> timed;
  Moment start(call.op()), end(call.op());
  const size_t most = limit == 0 ? ways.size() : static_cast<size_t>(limit);
  for (size_t i = 0; i < ways.size(); ++i) {
    float time = std::numeric_limits<float>::infinity();
    if (i < most) {
      // Once before it counts: kernels are loaded at their first use.
      const Outcome first = try_one(ways[i]);
      if (first == Outcome::NoWay) continue;
      start.record(call);
      const bool again = first == Outcome::Done && try_one(ways[i]) == Outcome::Done;
      end.record(call);
      call.wait();
      if (again) time = start.until(end, call);
    }
    timed.emplace_back(time, std::move(ways[i]));
  }
  std::stable_sort(timed.begin(), timed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  ways.clear();
  for (auto& [time, way] : timed) ways.push_back(std::move(way));
}

}  // namespace moonlet::cuda::cudnn
