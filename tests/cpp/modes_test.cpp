// tests/cpp/modes_test.cpp: ops as values and the stack of modes from C++: boxed calls of every
// pointwise row, what ops write, ops registered at run time, and modes that nest, throw and go.
#include "tests/cpp/catch2.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "autograd/autocast.h"
#include "autograd/ops_arithmetic.h"
#include "autograd/ops_clone.h"
#include "autograd/ops_compare.h"
#include "autograd/ops_convert.h"
#include "autograd/ops_copy.h"
#include "autograd/ops_linalg.h"
#include "autograd/ops_math.h"
#include "autograd/ops_shape.h"
#include "autograd/ops_softmax.h"
#include "autograd/tape.h"
#include "tensor/runtime/modes.h"
#include "tests/cpp/messages.h"

using namespace moonlet;

namespace {

Tensor of(std::vector<double> values) {
  Tensor t = empty_plain({static_cast<int64_t>(values.size())}, {DType::Float64, {}});
  std::copy(values.begin(), values.end(), t.data<double>());
  return t;
}

std::vector<double> values(const Tensor& t) {
  const Tensor plain = contiguous(to(detach(t), DType::Float64, std::nullopt));
  return {plain.data<double>(), plain.data<double>() + plain.numel()};
}

const OpInfo& op_named(const char* name) {
  const OpInfo* op = find_op(name);
  REQUIRE(op != nullptr);
  return *op;
}

// Notes the names of the ops it sees.
class Noting : public Mode {
 public:
  explicit Noting(InnerOps inner_ops = InnerOps::Visible) : inner_ops_(inner_ops) {}
  void call(ModeCall& call) override {
    seen += std::string(seen.empty() ? "" : " ") + call.op.name;
    call.proceed(inner_ops_);
  }
  std::string seen;

 private:
  const InnerOps inner_ops_;
};

class Throwing final : public Mode {
 public:
  void call(ModeCall& call) override { fail(call.op.name, ": refused"); }
};

// Answers "exp" by itself, with what it calls there unseen by it.
class Replacing final : public Mode {
 public:
  void call(ModeCall& call) override {
    if (std::string_view(call.op.name) != "exp") {
      call.proceed();
      return;
    }
    const Tensor& x = std::get<Tensor>(call.arguments.at(0));
    call.results.push_back(add(exp(x), 1.0));
  }
};

DType computing_dtype(const RowInfo& row) {
  for (const DType t : {DType::Float64, DType::Int64, DType::Bool, DType::Complex128})
    if (contains(row.dtypes, t)) return t;
  return DType::Float32;
}

// Arguments of a pointwise row: tensors inside the domain of most functions, and 0.5 for numbers.
BoxedValues pointwise_arguments(const RowInfo& row) {
  const DType dtype = computing_dtype(row);
  BoxedValues out;
  for (int i = 0; i < row.argument_count; ++i) {
    const std::string_view type = row.arguments[i].type;
    if (type == "Mask")
      out.emplace_back(gt(of({0, 1, 0}), 0.5));
    else if (type == "Tensor" || type == "Operand")
      out.emplace_back(to(of({0.25 + i, 0.5, 0.75}), dtype, std::nullopt));
    else
      out.emplace_back(Scalar(0.5));
  }
  return out;
}

void check_same(const Tensor& got, const Tensor& wanted) {
  REQUIRE(got.dtype() == wanted.dtype());
  const auto as_real = [](const Tensor& t) { return is_complex(t.dtype()) ? view_as_real(t) : t; };
  const std::vector<double> a = values(as_real(got)), b = values(as_real(wanted));
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK((a[i] == b[i] || (a[i] != a[i] && b[i] != b[i])));
}

}  // namespace

TEST_CASE("every op is found by its name, once") {
  const std::vector<const OpInfo*> ops = all_ops();
  CHECK(ops.size() > 400);
  for (const OpInfo* op : ops) {
    CHECK(find_op(op->name) == op);
    CHECK(op->call != nullptr);
    CHECK(std::string(op->row->schema).starts_with(std::string(op->row->name) + "("));
    const bool composite = op->row->kind == OpKind::Composite;
    if (op->body != nullptr) CHECK((composite && op->form == OpInfo::Form::Plain));
  }
  CHECK(find_op("no_such_op") == nullptr);
}

TEST_CASE("the forms of every pointwise row agree when called boxed") {
  int rows = 0;
  for (const OpInfo* op : all_ops()) {
    const RowInfo& row = *op->row;
    if (op->form != OpInfo::Form::Plain || row.kind != OpKind::Pointwise) continue;
    INFO(row.schema);
    ++rows;
    const BoxedValues arguments = pointwise_arguments(row);
    const BoxedValues wanted = call_op(*op, arguments);
    REQUIRE(wanted.size() == 1);
    const Tensor& y = std::get<Tensor>(wanted[0]);
    if (const OpInfo* out = find_op(std::string(row.name) + "_out")) {
      BoxedValues in{empty_plain(y.sizes(), options_of(y))};
      in.insert(in.end(), arguments.begin(), arguments.end());
      const BoxedValues got = call_op(*out, in);
      check_same(std::get<Tensor>(in[0]), y);
      CHECK(std::get<Tensor>(got.at(0)).is_same(std::get<Tensor>(in[0])));
    }
    const OpInfo* in_place = find_op(std::string(row.name) + "_");
    const Tensor& x = std::get<Tensor>(arguments[0]);
    if (in_place && x.dtype() == y.dtype()) {
      BoxedValues in = arguments;
      in[0] = clone(x);
      call_op(*in_place, in);
      check_same(std::get<Tensor>(in[0]), y);
    }
  }
  CHECK(rows > 80);
}

TEST_CASE("boxed calls give several results, lists, views, plain numbers, and what is absent") {
  const Tensor x = of({3, 1, 2});
  const BoxedValues sorted = call_op(op_named("sort"), BoxedValues{x, int64_t{-1}, false, false});
  REQUIRE(sorted.size() == 2);
  CHECK(values(std::get<Tensor>(sorted[0])) == std::vector<double>{1, 2, 3});
  const BoxedValues split_up = call_op(op_named("unbind"), BoxedValues{x, int64_t{0}});
  CHECK(std::get<std::vector<Tensor>>(split_up.at(0)).size() == 3);
  const BoxedValues joined =
      call_op(op_named("cat"), BoxedValues{std::vector<Tensor>{x, x}, int64_t{0}});
  CHECK(std::get<Tensor>(joined.at(0)).numel() == 6);
  const BoxedValues viewed = call_op(op_named("view"), BoxedValues{x, Dims{3, 1}});
  CHECK(&std::get<Tensor>(viewed.at(0)).storage() == &x.storage());
  const BoxedValues summed = call_op(op_named("sum"), BoxedValues{x, Dims{}, false, BoxedValue()});
  CHECK(values(std::get<Tensor>(summed.at(0))) == std::vector<double>{6});
  const BoxedValues squeezed =
      call_op(op_named("squeeze"), BoxedValues{view(x, {3, 1}), BoxedValue()});
  CHECK(std::get<Tensor>(squeezed.at(0)).dim() == 1);
  const BoxedValues kept = call_op(op_named("squeeze"), BoxedValues{view(x, {3, 1}), Dims{}});
  CHECK(std::get<Tensor>(kept.at(0)).dim() == 2);
  Tensor changed = clone(x);
  call_op(op_named("fill_"), BoxedValues{changed, Scalar(7.0)});
  CHECK(values(changed) == std::vector<double>{7, 7, 7});
}

TEST_CASE("a wrong boxed argument is an error") {
  const Tensor x = of({1, 2});
  CHECK(message_of([&] { call_op(op_named("exp"), BoxedValues{Scalar(1.0)}); }) ==
        "exp: argument 'x' must be a tensor, got a number");
  CHECK(message_of([&] {
          call_op(op_named("exp"), BoxedValues{x, x});
        }) == "exp: takes 1 arguments, got 2");
  CHECK(message_of([&] {
          call_op(op_named("softmax"), BoxedValues{x, std::string("a")});
        }) == "softmax: argument 'dim' must be an integer, got a string");
  CHECK(message_of([&] {
          call_op(op_named("add_out"), BoxedValues{true, x, x});
        }) == "add_out: argument 'out' must be a tensor, got a boolean");
}

TEST_CASE("a wrong result of a mode is an error") {
  class Giving final : public Mode {
   public:
    void call(ModeCall& call) override { call.results = given; }
    BoxedValues given;
  };
  const Tensor x = of({1, 2});
  Giving giving;
  const ModeScope scope(giving);
  CHECK(message_of([&] { exp(x); }) == "exp: a mode gave 0 results, 1 is expected");
  giving.given = {std::string("a")};
  CHECK(message_of([&] { exp(x); }) ==
        "exp: result 1 that a mode gave must be a tensor, got a string");
}

TEST_CASE("an op says what it writes") {
  CHECK_FALSE(op_named("add").writes(0));
  CHECK(op_named("add_").writes(0));
  CHECK_FALSE(op_named("add_").writes(1));
  CHECK(op_named("add_out").writes(0));
  CHECK_FALSE(op_named("add_out").writes(1));
  CHECK(op_named("fill_").writes(0));
  CHECK_FALSE(op_named("scatter_add").writes(0));
  CHECK(op_named("scatter_add_").writes(0));
  CHECK(op_named("transpose").is_view());
  CHECK_FALSE(op_named("reshape").is_view());
}

TEST_CASE("a mode sees the ops an op is made of, unless it hides them") {
  const Tensor x = of({1, 2});
  Noting all, outermost(InnerOps::Hidden);
  {
    const ModeScope scope(all);
    softmin(x, 0);
  }
  CHECK(all.seen == "softmin neg softmax");
  {
    const ModeScope scope(outermost);
    softmin(x, 0);
  }
  CHECK(outermost.seen == "softmin");
  CHECK_FALSE(intercepted());
}

TEST_CASE("modes nest, each with its own view of what is inside") {
  const Tensor x = of({1, 2});
  Noting outer, inner(InnerOps::Hidden);
  const ModeScope outer_scope(outer);
  {
    const ModeScope inner_scope(inner);
    softmin(x, 0);
  }
  CHECK(inner.seen == "softmin");
  CHECK(outer.seen == "softmin neg softmax");
  {
    const NoModes quiet;
    exp(x);
  }
  CHECK(outer.seen == "softmin neg softmax");
}

TEST_CASE("a mode's own ops go to the modes below only") {
  const Tensor x = of({0});
  Noting outer;
  Replacing replacing;
  const ModeScope outer_scope(outer);
  const ModeScope inner_scope(replacing);
  const Tensor y = exp(x);
  CHECK(outer.seen == "exp add");
  log(y);
  CHECK(outer.seen == "exp add log");
}

TEST_CASE("an exception leaves the stack as it was") {
  const Tensor x = of({1, 2});
  Noting outer;
  Throwing throwing;
  const ModeScope outer_scope(outer);
  {
    const ModeScope inner_scope(throwing);
    CHECK(message_of([&] { softmin(x, 0); }) == "softmin: refused");
    CHECK(message_of([&] { exp(x); }) == "exp: refused");
  }
  CHECK(message_of([&] { add(x, of({1, 2, 3})); }).starts_with("add"));
  exp(x);
  CHECK(outer.seen == "add exp");
}

TEST_CASE("modes nest up to a bound") {
  const Tensor x = of({1, 2});
  const auto noting = std::make_shared<Noting>();
  std::vector<std::unique_ptr<ModeHolder>> held;
  for (int i = 0; i < kMaxModes; ++i) held.push_back(std::make_unique<ModeHolder>(noting));
  CHECK(message_of([&] { const ModeHolder more(noting); }).find("modes nest too deeply") !=
        std::string::npos);
  CHECK(message_of([&] { const ModeScope more(*noting); }).find("modes nest too deeply") !=
        std::string::npos);
  exp(x);
  // What was removed from the top makes room; so does the end of a scope that hides the others.
  held.pop_back();
  { const ModeScope again(*noting); }
  {
    const NoModes none;
    const ModeScope first(*noting);
  }
  SuspendedModes own;
  {
    const ResumedModes coroutine(own);
    held.push_back(std::make_unique<ModeHolder>(noting));
  }
  { const ModeScope again(*noting); }
  { const ResumedModes coroutine(own); }
  {
    const ModeScope again(*noting);
    CHECK(message_of([&] { const ResumedModes coroutine(own); }).find("coroutine.resume: modes") ==
          0);
    exp(x);
  }
  while (!held.empty()) held.pop_back();
  CHECK_FALSE(intercepted());
}

TEST_CASE("holders go in any order, also while their mode runs") {
  const Tensor x = of({1, 2});
  const auto first = std::make_shared<Noting>(), second = std::make_shared<Noting>();
  ModeHolder a(first), b(second);
  exp(x);
  a.remove();
  neg(x);
  b.remove();
  abs(x);
  CHECK(first->seen == "exp");
  CHECK(second->seen == "exp neg");
  CHECK_FALSE(intercepted());

  class Leaving final : public Mode {
   public:
    void call(ModeCall& call) override {
      holder->remove();
      call.proceed();
      ++calls;
    }
    ModeHolder* holder = nullptr;
    int calls = 0;
  };
  auto leaving = std::make_shared<Leaving>();
  ModeHolder c(leaving);
  leaving->holder = &c;
  CHECK(values(exp(of({0}))) == std::vector<double>{1});
  exp(x);
  CHECK(leaving->calls == 1);
  CHECK_FALSE(intercepted());
}

TEST_CASE("a mode put on the stack inside a call and left there ends with the call") {
  class Leaking final : public Mode {
   public:
    void call(ModeCall& call) override {
      left.push_back(std::make_unique<ModeHolder>(inner));
      call.proceed();
    }
    std::shared_ptr<Noting> inner = std::make_shared<Noting>();
    std::vector<std::unique_ptr<ModeHolder>> left;
  };
  Leaking leaking;
  {
    const ModeScope scope(leaking);
    exp(of({1}));
    exp(of({1}));
  }
  CHECK_FALSE(intercepted());
  exp(of({1}));
  CHECK(leaking.inner->seen.empty());
}

TEST_CASE("a coroutine's modes leave with it and come back on top of its resumer's") {
  const Tensor x = of({1, 2});
  SuspendedModes own;
  const auto mine = std::make_shared<Noting>();
  Noting resumer;
  std::unique_ptr<ModeHolder> holder;
  {
    const ModeScope scope(resumer);
    const ResumedModes running(own);
    holder = std::make_unique<ModeHolder>(mine);
    exp(x);
  }
  CHECK_FALSE(intercepted());
  CHECK_FALSE(own.empty());
  neg(x);
  {
    const ResumedModes running(own);
    abs(x);
    holder->remove();
    sin(x);
  }
  CHECK(mine->seen == "exp abs");
  CHECK(resumer.seen == "exp");
  CHECK(own.empty());
  CHECK_FALSE(intercepted());
}

TEST_CASE("the stack belongs to its thread") {
  Noting noting;
  const ModeScope scope(noting);
  std::thread([] { exp(of({1})); }).join();
  CHECK(noting.seen.empty());
}

TEST_CASE("a mode sees the ops before the tape, so that what it does is recorded") {
  Tensor x = of({1, 2});
  set_requires_grad(x, true);
  Replacing replacing;
  Tensor y;
  {
    const ModeScope scope(replacing);
    y = exp(x);
  }
  CHECK(grad_fn_name(y) == "AddBackward");
  Noting noting;
  {
    const ModeScope scope(noting);
    backward({y}, {of({1, 1})});
  }
  CHECK(noting.seen.find("mul") != std::string::npos);
}

namespace {

// An op of a plugin: no row of the table, no generated code.
void call_twice(std::span<const BoxedValue> arguments, BoxedValues& results) {
  const Tensor& x = std::get<Tensor>(arguments[0]);
  results.emplace_back(add(x, x));
}
const ArgumentInfo kTwiceArguments[] = {{"x", "Tensor", nullptr, false}};
const RowInfo kTwiceRow = {.name = "test_twice",
                           .schema = "test_twice(Tensor x) -> Tensor",
                           .family = "plugin",
                           .kind = OpKind::Composite,
                           .dtypes = dtypes::all,
                           .differentiable = true,
                           .arguments = kTwiceArguments,
                           .argument_count = 1,
                           .result_count = 1};
const OpInfo kTwice = {"test_twice", &kTwiceRow, OpInfo::Form::Plain, call_twice, call_twice};
const OpInfo kTaken = {"exp", &kTwiceRow, OpInfo::Form::Plain, call_twice};

}  // namespace

TEST_CASE("an op registered at run time is found, called and seen by modes") {
  register_op(kTwice);
  CHECK(find_op("test_twice") == &kTwice);
  CHECK(message_of([] { register_op(kTaken); }).find("'exp'") != std::string::npos);
  CHECK(message_of([] { register_op(kTwice); }).find("'test_twice'") != std::string::npos);
  Tensor x = of({1, 2});
  set_requires_grad(x, true);
  Noting noting;
  Tensor y;
  {
    const ModeScope scope(noting);
    y = std::get<Tensor>(call_op(kTwice, BoxedValues{x}).at(0));
  }
  CHECK(noting.seen == "test_twice add");
  CHECK(values(y) == std::vector<double>{2, 4});
  backward({y}, {of({1, 1})});
  CHECK(values(grad_of(x)) == std::vector<double>{2, 2});
}

TEST_CASE("autocast from C++") {
  const Tensor x = to(of({1, 2}), DType::Float32, std::nullopt);
  const Tensor m = view(x, {1, 2});
  Autocast outer(DeviceType::CPU, DType::BFloat16, true),
      off(DeviceType::CPU, DType::BFloat16, false);
  Autocast cuda(device_type_from_name("cuda"), DType::Float16, true);
  const ModeScope scope(outer);
  CHECK(linear(m, m, Tensor()).dtype() == DType::BFloat16);
  {
    const ModeScope inner(off);
    CHECK(linear(m, m, Tensor()).dtype() == DType::Float32);
    CHECK(current_autocast(DeviceType::CPU) == &off);
  }
  {
    const ModeScope inner(cuda);
    CHECK(linear(m, m, Tensor()).dtype() == DType::BFloat16);
  }
  CHECK(current_autocast(device_type_from_name("cuda")) == nullptr);
  CHECK(!message_of([] { Autocast(DeviceType::CPU, DType::Float64, true); }).empty());
}
