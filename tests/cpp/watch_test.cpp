// tests/cpp/watch_test.cpp: the emulation's watch over kernels finds races and counts sectors.
#include "tests/cpp/catch2.h"

#include <cuda_runtime.h>

#include <string>

#include "cuda/emulated/sectors.h"
#include "cuda/emulated/watch.h"
#include "watch_kernels.cu"

namespace {

/// Device memory; what the launch that filled it says about races.
template <class T, class Launch>
std::string race_of(Launch&& launch) {
  T* data = nullptr;
  REQUIRE(cudaMalloc(&data, 4096 * sizeof(T)) == cudaSuccess);
  REQUIRE(cudaMemset(data, 0, 4096 * sizeof(T)) == cudaSuccess);
  launch(data);
  const bool fine = cudaGetLastError() == cudaSuccess;
  const std::string text = moonlet::emulated::failure_text();
  CHECK(fine == text.empty());
  if (!fine) REQUIRE(cudaDeviceReset() == cudaSuccess);
  if (fine) cudaFree(data);
  return text;
}

bool says(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("what a barrier parts is no race, and what none parts is one") {
  REQUIRE(moonlet::emulated::kWatched);
  const auto shared = [](bool wait) {
    return race_of<int>(
        [=](int* out) { MOONLET_LAUNCH(neighbour, 4, 256, 0, nullptr, out, wait); });
  };
  CHECK(shared(true).empty());
  CHECK(says(shared(false), "a race in neighbour: thread "));
  const auto turned = [](bool wait) {
    return race_of<int>([=](int* out) { MOONLET_LAUNCH(turns, 2, 64, 0, nullptr, out, wait); });
  };
  CHECK(turned(true).empty());
  CHECK(says(turned(false), "reads what thread 0 of block 0 wrote"));
}

TEST_CASE("a warp is ordered by its own barrier, not by a shuffle") {
  const auto shared = [](bool wait) {
    return race_of<int>([=](int* out) {
      MOONLET_LAUNCH(warp_neighbour, 3, 96, 96 * sizeof(int), nullptr, out, wait);
    });
  };
  CHECK(shared(true).empty());
  CHECK(says(shared(false), "a race in warp_neighbour"));
  CHECK(says(race_of<int>([](int* out) { MOONLET_LAUNCH(after_shuffle, 1, 32, 0, nullptr, out); }),
             "a race in after_shuffle"));
}

TEST_CASE("blocks race unless they use atomics") {
  const auto sum = [](bool atomically) {
    return race_of<int>(
        [=](int* out) { MOONLET_LAUNCH(total, 4, 32, 0, nullptr, out, atomically); });
  };
  CHECK(sum(true).empty());
  CHECK(says(sum(false), "of block 1 reads what thread 0 of block 0 wrote"));
  CHECK(race_of<unsigned char>([](unsigned char* out) {
          MOONLET_LAUNCH(bytes, 3, 50, 0, nullptr, out);
        }).empty());
}

TEST_CASE("a fence before an atomic orders blocks") {
  const auto sum = [](bool fence) {
    return race_of<int>([=](int* out) {
      MOONLET_LAUNCH(last_adds, 5, 32, 0, nullptr, out, reinterpret_cast<unsigned*>(out + 100),
                     fence);
    });
  };
  CHECK(sum(true).empty());
  CHECK(says(sum(false), "a race in last_adds"));
}

TEST_CASE("sectors: as few as hold the data where neighbours read neighbours") {
  moonlet::emulated::SectorCounts counts;
  static const char here = 0;
  for (unsigned thread = 0; thread < 64; ++thread)
    for (unsigned turn = 0; turn < 2; ++turn) counts.add(&here, thread, 4096 + thread * 4, 4);
  counts.close("rows");
  for (unsigned thread = 0; thread < 32; ++thread)
    counts.add(&here, thread, 4096 + thread * 128, 4);
  counts.close("columns");
  for (unsigned thread = 0; thread < 32; ++thread) counts.add(&here, thread, 4096, 8);
  counts.close("one");
  CHECK(counts.report() == "columns\t32\t4\none\t1\t1\nrows\t16\t16\n");
}
