// tests/cpp/storage_test.cpp: storages, the pooled allocator and the byte counters.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <thread>
#include <vector>

#include "tensor/error.h"
#include "tensor/storage.h"

using namespace moonlet;

TEST_CASE("live bytes follow allocations of every size class", "[storage]") {
  const int64_t before = live_bytes();
  for (size_t bytes :
       {size_t{0}, size_t{1}, size_t{1024}, size_t{1025}, size_t{65536}, size_t{9} << 20}) {
    Storage* s = Storage::allocate(bytes, {});
    CHECK(live_bytes() == before + static_cast<int64_t>(bytes));
    CHECK(reinterpret_cast<uintptr_t>(s->data()) % 64 == 0);
    for (size_t i = 0; i < bytes; i += 512) s->data()[i] = 1;
    s->release();
    CHECK(live_bytes() == before);
  }
}

TEST_CASE("kept memory stays within the bound", "[storage]") {
  reset_peak_bytes();
  for (int i = 0; i < 200; ++i) Storage::allocate((size_t{1} << 20) * (1 + i % 90), {})->release();
  CHECK(held_bytes() - live_bytes() <= (int64_t{256} << 20));
  pooled_allocator().empty_cache();
  CHECK(pooled_allocator().cached_bytes() == 0);
}

TEST_CASE("a request nobody can meet is OutOfMemory", "[storage]") {
  const int64_t before = live_bytes();
  CHECK_THROWS_AS(Storage::allocate(size_t{1} << 60, {}), OutOfMemory);
  CHECK(live_bytes() == before);
}

TEST_CASE("foreign memory runs its deleter once", "[storage]") {
  char buffer[16];
  int runs = 0;
  Storage* s = Storage::foreign(buffer, sizeof buffer, {}, [&] { ++runs; });
  s->retain();
  s->release();
  CHECK(runs == 0);
  s->release();
  CHECK(runs == 1);
}

TEST_CASE("a mapped file can be written without changing the file", "[storage]") {
  const std::string path = "storage_test.bin";
  std::ofstream(path) << "moon";
  Storage* s = Storage::map_file(path);
  CHECK(std::string(s->data(), s->bytes()) == "moon");
  s->data()[0] = 'n';
  s->release();
  std::string content;
  std::ifstream(path) >> content;
  CHECK(content == "moon");
  std::remove(path.c_str());
  CHECK_THROWS_AS(Storage::map_file("no/such/file"), Error);
}

TEST_CASE("blocks may be freed on another thread than made them", "[storage]") {
  const int64_t before = live_bytes();
  std::vector<Storage*> made(1000);
  std::thread([&] {
    for (size_t i = 0; i < made.size(); ++i) made[i] = Storage::allocate(i * 7, {});
  }).join();
  std::thread([&] {
    for (Storage* s : made) s->release();
  }).join();
  CHECK(live_bytes() == before);
}
