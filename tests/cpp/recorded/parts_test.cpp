// tests/cpp/recorded/parts_test.cpp: ops that are put off: what is asked for is what eager code
// gives, whenever it is asked for, and nothing that nobody asks for is computed.
#include "tests/cpp/recorded/recorded_function.h"

#include "tensor/program/parts/deferral.h"

using namespace moonlet;
using namespace moonlet::recorded;
using program::Deferral;
using program::PartEnd;
using program::Trace;

namespace {

// One call of a function by parts.
template <class F>
auto by_parts(const std::shared_ptr<Trace>& trace, F&& f) {
  Deferral::least_left_out = 0;
  REQUIRE(Deferral::of_thread().enter(trace, {}));
  struct Leave {
    ~Leave() noexcept(false) { Deferral::of_thread().leave(); }
  } const at_end;
  return f();
}

float first(const Tensor& t) { return *contiguous(t).data<const float>(); }

const PartEnd* only_end(const Trace& trace) {
  const program::TraceStep* step = trace.start.next.get();
  while (step != nullptr && step->end == nullptr)
    step = step->next.empty() ? nullptr : step->next.front().get();
  return step == nullptr ? nullptr : step->end.get();
}

}  // namespace

TEST_CASE("ops are put off until contents are asked for") {
  const auto trace = std::make_shared<Trace>();
  for (int i = 0; i < 6; ++i) {
    const Tensor x = full({4}, i);
    by_parts(trace, [&] {
      const Tensor y = add(mul(x, 2.0), 1.0);
      CHECK(first(y) == static_cast<float>(2 * i + 1));
      return 0;
    });
  }
  REQUIRE(only_end(*trace) != nullptr);
  CHECK(only_end(*trace)->runs == 6);
  CHECK(only_end(*trace)->runner != nullptr);
  CHECK(trace->mismatches == 0);
  CHECK(trace->runs == 6);
}

TEST_CASE("what nobody asks for is not computed, until somebody does") {
  const auto trace = std::make_shared<Trace>();
  Tensor x = full({1000}, 3), kept;
  const int64_t before = live_bytes();
  for (int i = 0; i < 4; ++i) {
    by_parts(trace, [&] {
      kept = mul(x, 2.0);
      return first(sum(add(kept, 1.0)));
    });
    // `kept` has no memory; what lies between it and the sum may.
    if (i > 0) CHECK(live_bytes() - before < 8000);
  }
  // x is about to change.
  fill_(x, 5.0);
  CHECK(first(kept) == 6.0F);
  CHECK(Deferral::of_thread().is_idle());
}

TEST_CASE("changes in place raise versions once, and are seen by all") {
  const auto trace = std::make_shared<Trace>();
  for (int i = 0; i < 5; ++i) {
    Tensor x = full({4}, i);
    const uint32_t version = x.storage().version();
    const float read = by_parts(trace, [&] {
      add_(x, 1.0);
      mul_(x, 2.0);
      CHECK(x.storage().version() == version + 2);
      return first(x);
    });
    CHECK(read == static_cast<float>(2 * (i + 1)));
    CHECK(x.storage().version() == version + 2);
    CHECK(!x.storage().is_deferred());
  }
}

TEST_CASE("another way is written down, and both run from plans") {
  const auto trace = std::make_shared<Trace>();
  for (int i = 0; i < 16; ++i) {
    const Tensor x = full({4}, i);
    const float got = by_parts(trace, [&] {
      const Tensor y = mul(x, 2.0);
      return first(i % 2 == 0 ? add(y, 1.0) : sub(y, 1.0));
    });
    CHECK(got == static_cast<float>(i % 2 == 0 ? 2 * i + 1 : 2 * i - 1));
  }
  CHECK(trace->mismatches == 1);
}

TEST_CASE("an op that fails leaves what was before it") {
  const auto trace = std::make_shared<Trace>();
  const Tensor x = full({4}, 2), bad = full({3}, 2);
  for (int i = 0; i < 4; ++i) {
    const Tensor y = by_parts(trace, [&] {
      Tensor made = mul(x, 3.0);
      CHECK_THROWS(add(made, bad));
      return made;
    });
    CHECK(first(y) == 6.0F);
  }
}

TEST_CASE("tensors outlive the function and the tree") {
  Tensor y;
  {
    const auto trace = std::make_shared<Trace>();
    for (int i = 0; i < 3; ++i) y = by_parts(trace, [&] { return mul(full({4}, i), 3.0); });
  }
  CHECK(first(y) == 6.0F);
}
