// tests/cpp/storage_test.cpp: storages, the pooled allocator and the byte counters.
#include "tests/cpp/catch2.h"

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tensor/core/dispatch.h"
#include "tensor/core/set.h"
#include "tensor/raw_arithmetic.h"
#include "tensor/raw_clone.h"
#include "tensor/raw_copy.h"
#include "tensor/raw_create.h"
#include "tensor/raw_math.h"

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

namespace {
std::vector<double> values(const TypedStorage& s) {
  std::vector<double> out;
  for (int64_t i = 0; i < s.size(); ++i) out.push_back(s.get(i).to_double());
  return out;
}
std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
using Values = std::vector<double>;
}  // namespace

TEST_CASE("a typed storage reads and writes what tensors view", "[storage]") {
  Tensor x = empty_plain({2, 2}, {DType::Int16, {}});
  raw::fill_(x, 3);
  TypedStorage s(x);
  CHECK(s.size() == 4);
  CHECK(s.nbytes() == 8);
  CHECK(s.is_same(TypedStorage(x)));
  const uint32_t version = x.storage().version();
  s.set(3, 9);
  CHECK(x.data<int16_t>()[3] == 9);
  CHECK(x.storage().version() == version + 1);
  CHECK(values(s) == Values{3, 3, 3, 9});
  CHECK_THROWS_AS(s.set(0, 40000), Error);
  CHECK_THROWS_AS(s.get(4), Error);
  CHECK_THROWS_AS(s.get(-1), Error);
  x = Tensor();
  s.fill(7);
  TypedStorage other(4, {DType::Float64, {}});
  CHECK(values(other) == Values{0, 0, 0, 0});
  other.copy(s);
  CHECK(values(other) == Values{7, 7, 7, 7});
  CHECK_THROWS_AS(other.copy(TypedStorage(3, {})), Error);
  CHECK_THROWS_AS(TypedStorage(-1, {}), Error);
  CHECK_THROWS_AS(TypedStorage(INT64_MAX / 2, {}), Error);
}

TEST_CASE("resizing a storage counts bytes and keeps what tensors reach", "[storage]") {
  const int64_t before = live_bytes();
  {
    TypedStorage s(4, {});
    const Tensor all = s.tensor();
    for (int64_t i = 0; i < 4; ++i) s.set(i, i + 1);
    s.resize(6);
    CHECK(live_bytes() == before + 24);
    CHECK(values(s) == Values{1, 2, 3, 4, 0, 0});
    CHECK(all.data<float>()[3] == 4);
    s.resize(1);
    CHECK(live_bytes() == before + 24);  // `all` still reaches four elements
    CHECK(all.data<float>()[3] == 4);
    CHECK_THROWS_AS(alias(all, {4}, {1}, 0), Error);
  }
  CHECK(live_bytes() == before);
  TypedStorage alone(1000, {});
  alone.resize(10);
  CHECK(live_bytes() == before + 40);
}

TEST_CASE("memory of others keeps its size, and read-only memory its contents", "[storage]") {
  float buffer[4] = {1, 2, 3, 4};
  Tensor x = from_blob(buffer, {4}, DType::Float32);
  TypedStorage s(x);
  CHECK(s.storage().is_foreign());
  CHECK(message([&] { s.resize(8); }).find("memory of the host's") != std::string::npos);
  CHECK(message([&] { resize_(x, {5}); }).find("memory of the host's") != std::string::npos);
  resize_(x, {2, 2});
  s.set(0, 5);
  CHECK(buffer[0] == 5);
  s.storage().make_read_only();
  for (const auto& write : std::vector<std::function<void()>>{
           [&] { s.set(0, 1); }, [&] { s.fill(1); }, [&] { raw::add_(x, 1.0); },
           [&] { raw::exp_out(x, raw::clone(x, std::nullopt)); },
           [&] { raw::triu_out(x, raw::clone(x, std::nullopt), 0); }, [&] { resize_(x, {9}); }})
    CHECK(message(write).find("read-only") != std::string::npos);
  CHECK(buffer[0] == 5);
}

TEST_CASE("a mapped file is private, shared or read-only", "[storage]") {
  const std::string path = "storage_test_typed.bin";
  std::remove(path.c_str());
  const auto map = [&](Mapping mapping, std::optional<int64_t> size = {}) {
    return TypedStorage::map_file(path, DType::Int32, mapping, size);
  };
  CHECK_THROWS_AS(map(Mapping::Shared), Error);
  CHECK_THROWS_AS(map(Mapping::Private, 3), Error);
  TypedStorage shared = map(Mapping::Shared, 3);
  CHECK(shared.storage().is_shared());
  shared.fill(2);
  TypedStorage mine = map(Mapping::Private);
  mine.fill(5);
  TypedStorage fixed = map(Mapping::ReadOnly);
  CHECK_THROWS_AS(fixed.fill(1), Error);
  CHECK(values(shared) == Values{2, 2, 2});
  CHECK(values(fixed) == Values{2, 2, 2});
  for (TypedStorage* s : {&shared, &mine, &fixed}) CHECK_THROWS_AS(s->resize(4), Error);
  CHECK(map(Mapping::Shared, 4).size() == 4);
  CHECK_THROWS_AS(map(Mapping::Private, 5), Error);
  std::remove(path.c_str());
}

TEST_CASE("a tensor moves to another storage", "[storage]") {
  TypedStorage s(6, {});
  for (int64_t i = 0; i < 6; ++i) s.set(i, i);
  Tensor x = empty_plain({2}, {});
  const Tensor same = x;
  for (int i = 0; i < 20; ++i) x.storage().bump_version();
  const uint32_t version = x.storage().version();
  set_(x, s, 1, {2, 2}, {2, 1});
  CHECK(same.data<float>()[2] == 3);
  CHECK(x.storage().version() > version);
  CHECK_THROWS_AS(set_(x, s, 3, {2, 2}, {2, 1}), Error);
  CHECK_THROWS_AS(set_(x, s, -1, {1}, {1}), Error);
  CHECK_THROWS_AS(set_(x, s, INT64_MAX, {2}, {1}), Error);
  CHECK_THROWS_AS(set_(x, s, 0, {3, 3}, {INT64_MAX, INT64_MAX}), Error);
  CHECK_THROWS_AS(set_(x, TypedStorage(4, {DType::Int32, {}}), 0, {4}, {1}), Error);
  CHECK_THROWS_AS(resize_(x, {INT64_MAX / 64}), Error);
  CHECK_THROWS_AS(resize_(x, {-1}), Error);
  CHECK(x.sizes() == Dims{2, 2});
  resize_(x, {7});
  CHECK(s.size() == 8);
  CHECK(values(s) == Values{0, 1, 2, 3, 4, 5, 0, 0});
  CHECK(same.sizes() == Dims{7});
}

TEST_CASE("memory that another interpreter has is copied before it is looked at twice",
          "[storage]") {
  const Tensor x = empty_plain({8}, {});
  Tensor copy;
  CHECK(steady(x, copy).is_same(x));
  x.storage().hand_over();
  // Nobody else holds it yet.
  CHECK(!x.storage().has_other_writers());
  CHECK(steady(x, copy).is_same(x));
  {
    const Tensor theirs = shallow_copy(x);
    CHECK(x.storage().has_other_writers());
    const Tensor& own = steady(x, copy);
    CHECK(&own.storage() != &x.storage());
    CHECK(own.sizes() == x.sizes());
    std::vector<Tensor> list_copy;
    const std::vector<Tensor> list{Tensor(), x};
    CHECK(&steady(list, list_copy)[1].storage() != &x.storage());
    CHECK(!steady(list, list_copy)[0].defined());
    CHECK_THROWS_AS(x.storage().resize(64, "resize"), Error);
    Tensor out = shallow_copy(x), values = empty_plain({8}, {});
    CHECK(!out_or_new("sort", out, shapes::like(values), {&values}).is_same(out));
  }
  CHECK(steady(x, copy).is_same(x));
  x.storage().resize(64, "resize");
}

TEST_CASE("tensors that a host gives to two interpreters are shared", "[storage]") {
  Tensor x = empty_plain({8}, {});
  const int first = 0, second = 0;
  x.storage().note_interpreter(&first);
  x.storage().note_interpreter(&first);
  CHECK(!x.storage().has_other_writers());
  Tensor moved = empty_plain({4}, {});
  Tensor held = x;
  take_memory(x, moved);  // goes on belonging to the first
  x.storage().note_interpreter(&second);
  CHECK(x.storage().has_shared_handles());
  CHECK(x.storage().has_other_writers());
  CHECK_THROWS_AS(resize_(x, {2}), Error);
  CHECK_THROWS_AS(take_memory(x, empty_plain({4}, {})), Error);
  held = Tensor();
  CHECK(resize_(x, {2}).numel() == 2);  // nobody else holds it
}
