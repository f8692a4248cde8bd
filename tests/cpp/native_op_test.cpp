// tests/cpp/native_op_test.cpp: ops that are declared in C++: what a declaration gives, schemas,
// and what is refused, with nothing added.
#include "tests/cpp/catch2.h"

#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "autograd/batching.h"
#include "autograd/forward_mode.h"
#include "autograd/native/native_op.h"
#include "autograd/ops_arithmetic.h"
#include "autograd/ops_clone.h"
#include "autograd/ops_copy.h"
#include "autograd/ops_math.h"
#include "autograd/ops_reduce.h"
#include "autograd/tape.h"
#include "tensor/core/raw_op.h"
#include "tests/cpp/messages.h"

using namespace moonlet;

namespace {

Tensor of(std::vector<double> values) {
  Tensor t = empty_plain({static_cast<int64_t>(values.size())}, {DType::Float64, {}});
  std::copy(values.begin(), values.end(), t.data<double>());
  return t;
}
Tensor leaf(std::vector<double> values) {
  Tensor t = of(std::move(values));
  set_requires_grad(t, true);
  return t;
}
std::vector<double> values(const Tensor& t) {
  const Tensor plain = contiguous(detach(t));
  return {plain.data<double>(), plain.data<double>() + plain.numel()};
}
Tensor result(const BoxedValues& results, size_t i = 0) { return std::get<Tensor>(results.at(i)); }

Tensor copied(const Tensor& x) { return clone(x); }

}  // namespace

TEST_CASE("a declared op is called, recorded and differentiated twice") {
  const OpInfo& op = native_op<"cpptest::power(Tensor x, float p=2.0) -> Tensor">()
                         .pointwise([](auto x, auto p) { return std::pow(x, p); })
                         .saves({"x"})
                         .gradient("x",
                                   [](const Derivative& d) {
                                     const double p = d.number("p");
                                     return mul(d.grad(), mul(pow(d.tensor("x"), p - 1), p));
                                   })
                         .inplace()
                         .add();
  CHECK(find_op("cpptest::power") == &op);
  CHECK(std::string(op.row->schema) == "cpptest::power(Tensor x, float p=2.0) -> Tensor");
  CHECK(op.row->kind == OpKind::Pointwise);
  CHECK(op.row->dtypes == dtypes::floating);
  CHECK(op.row->batch_rule == &batching::pointwise);
  CHECK(find_op("cpptest::power_")->writes(0));
  CHECK(find_op("cpptest::power_out")->form == OpInfo::Form::Out);
  const RawOp* raw = find_raw_op("cpptest::power");
  REQUIRE(raw != nullptr);
  CHECK(raw->tensors == 1u);

  const Tensor x = leaf({1, 2, 3});
  const Tensor y = result(call_op(op, BoxedValues{x, 3.0}));
  CHECK(values(y) == std::vector<double>{1, 8, 27});
  CHECK(grad_fn_name(y) == "PowerBackward");
  const Tensor g = grad({sum(y, {0}, false, std::nullopt)}, {x}, {}, true, true, true).at(0);
  CHECK(values(g) == std::vector<double>{3, 12, 27});
  const Tensor h = grad({sum(g, {0}, false, std::nullopt)}, {x}, {}, true, false, true).at(0);
  CHECK(values(h) == std::vector<double>{6, 12, 18});

  Tensor changed = of({1, 2, 3});
  call_op(*find_op("cpptest::power_"), BoxedValues{changed, int64_t{2}});
  CHECK(values(changed) == std::vector<double>{1, 4, 9});
  CHECK(message_of([&] {
          call_op(op, BoxedValues{x, std::string("a")});
        }) == "cpptest::power: argument 'p' must be a number");
  CHECK(message_of([&] { call_op(op, BoxedValues{x}); }) ==
        "cpptest::power: takes 2 arguments, got 1");
}

TEST_CASE("schemas that are read, and what is said of others") {
  const OpSchema schema = parse_op_schema(
      "lib::f( Tensor x,Dim[] dims ={0, 1} , string mode=\"a, b\", float? p=nil,int n=-3) -> "
      "(Tensor values,Tensor indices)");
  CHECK(schema.text ==
        "lib::f(Tensor x, Dim[] dims={0, 1}, string mode=\"a, b\", float? p=nil, int n=-3) -> "
        "(Tensor values, Tensor indices)");
  CHECK(schema.library() == "lib");
  CHECK(schema.short_name() == "f");
  CHECK(std::get<Dims>(default_of(schema, schema.arguments[1])) == Dims{0, 1});
  CHECK(std::get<std::string>(default_of(schema, schema.arguments[2])) == "a, b");
  CHECK(std::holds_alternative<std::monostate>(default_of(schema, schema.arguments[3])));
  CHECK(std::get<int64_t>(default_of(schema, schema.arguments[4])) == -3);
  const auto refused = [](const char* text) { return message_of([&] { parse_op_schema(text); }); };
  const std::pair<const char*, const char*> bad[] = {
      {"", "expected the name of an op, got its end"},
      {"f", "expected '(', got its end"},
      {"f(Tensor x)", "expected '->', got its end"},
      {"f(Tensor x) -> Tensor y", "something follows its results"},
      {"f(Tenser x) -> Tensor", "unknown type 'Tenser'"},
      {"f(Tensor) -> Tensor", "expected the name of an argument, got ') -> Tensor'"},
      {"f(Tensor x, Tensor x) -> Tensor", "two arguments are named 'x'"},
      {"f(Tensor x, int n=1.5) -> Tensor", "the default of 'n' is no int: 1.5"},
      {"f(Tensor x, int n=) -> Tensor", "the default of 'n' is missing"},
      {"f(Tensor x=1) -> Tensor", "the default of 'x' is no Tensor: 1"},
      {"f(int n=1, Tensor x) -> Tensor", "'x' must be given and follows one that may be left out"},
      {"f(int! n) -> Tensor", "only a Tensor is written, not a int"},
      {"f(Tensor x) -> int", "a result is a Tensor or a Tensor[], not a int"},
      {"f(Tensor x) -> (Tensor x, Tensor y)", "'x' names two things"},
      {"f_(Tensor x) -> Tensor", "the name ends with _, which the in-place form adds"},
      {"a::b::c(Tensor x) -> Tensor", "expected '(', got '::c(Tensor x'"},
  };
  for (const auto& [text, message] : bad)
    CHECK(refused(text) == "schema '" + std::string(text) + "': " + message);
}

namespace {
// The message of a declaration that is refused; the op must not be there.
template <FixedString schema, class Declare>
std::string refusal(Declare&& declare) {
  const std::string message = message_of([&] {
    NativeOp op(detail::native_entries<schema>());
    declare(op);
    op.add();
  });
  const std::string name(schema.view().substr(0, schema.view().find('(')));
  if (name != "exp") CHECK(find_op(name) == nullptr);
  CHECK(find_raw_op(name + "_") == nullptr);
  return message;
}
}  // namespace

TEST_CASE("a declaration that is wrong adds nothing") {
  const auto none = [](NativeOp&) {};
  CHECK(refusal<"exp(Tensor x) -> Tensor">([](NativeOp& op) { op.composite(&copied); }) ==
        "native_op: there is an op named 'exp' already");
  CHECK(refusal<"bad1(Tensor x) -> Tensor">(none) ==
        "bad1: expected one of pointwise, kernel and composite");
  CHECK(refusal<"bad2(Tensor x) -> Tensor">([](NativeOp& op) {
          op.composite(&copied).pointwise([](auto x) { return x; });
        }) == "bad2: expected one of pointwise, kernel and composite");
  CHECK(refusal<"bad3(Tensor x, int n) -> Tensor">([](NativeOp& op) {
          op.kernel([](const Tensor&, double, Tensor&) {});
        }) == "bad3: parameter 2 of its kernel ('n') is double, expected int64_t");
  CHECK(refusal<"bad4(Tensor x) -> Tensor">([](NativeOp& op) {
          op.kernel([](const Tensor&) {});
        }) == "bad4: its kernel takes 1 parameters, expected 1 arguments and 1 result");
  CHECK(refusal<"bad5(Tensor x, float a, Tensor y) -> Tensor">([](NativeOp& op) {
          op.pointwise([](auto x, auto a, auto y) { return x + a + y; });
        }) == "bad5: 'y' follows numbers; a pointwise op takes its tensors first");
  CHECK(refusal<"bad6(Tensor x, float a) -> Tensor">([](NativeOp& op) {
          op.pointwise([](auto x) { return x; });
        }) == "bad6: its functor does not take 1 element and 1 number");
  CHECK(refusal<"bad7(Tensor x) -> Tensor">([](NativeOp& op) {
          op.pointwise([](auto x) { return x; }).dtypes(dtypes::integral);
        }).starts_with("bad7: it is declared for "));
  CHECK(refusal<"bad8(Tensor x) -> (Tensor a, Tensor b)">([](NativeOp& op) {
          op.kernel([](const Tensor&, Tensor&, Tensor&) {});
        }) == "bad8: has several results and no shape function that says what they look like");
  CHECK(refusal<"bad9(Tensor x) -> Tensor">([](NativeOp& op) {
          op.composite(&copied).saves({"z"});
        }) == "bad9: saves 'z', which is no tensor of its schema");
  CHECK(refusal<"bad10(Tensor x) -> Tensor">([](NativeOp& op) {
          op.composite(&copied).gradient("y", [](const Derivative& d) { return d.grad(); });
        }) == "bad10: a gradient is declared of 'y', which is no argument");
  CHECK(refusal<"bad11(Tensor x, Tensor! y) -> Tensor">([](NativeOp& op) {
          op.kernel([](const Tensor&, Tensor&, Tensor&) {});
        }).starts_with("bad11: 'y' is written;"));
  CHECK(refusal<"bad12(Tensor x) -> Tensor">([](NativeOp& op) {
          op.composite(&copied).linear();
        }).starts_with("bad12: is made of others"));
  CHECK(refusal<"bad13(int n) -> Tensor">([](NativeOp& op) {
          op.composite([](int64_t n) { return of({static_cast<double>(n)}); }).inplace();
        }) == "bad13: the in-place form is of ops with a tensor first and one result");
  CHECK(refusal<"bad14(Tensor x) -> Tensor[]">([](NativeOp& op) {
          op.composite([](const Tensor& x) { return std::vector<Tensor>{x}; });
        }) == "bad14: an op that is declared in C++ gives tensors, no list of them");
  // The name of its in-place form is taken.
  CHECK(refusal<"iota(Tensor x) -> Tensor">([](NativeOp& op) {
          op.composite(&copied).inplace();
        }) == "native_op: there is an op named 'iota_' already");
}

TEST_CASE("what kernels and derivatives get wrong is said when they are called") {
  const OpInfo& shape =
      native_op<"cpptest::wrong_shape(Tensor x) -> Tensor">()
          .kernel([](const Tensor&, Tensor&) {})
          .shape([](const Tensor& x) { return std::vector<shapes::Result>(2, shapes::like(x)); })
          .add();
  const Tensor x = leaf({1, 2});
  CHECK(message_of([&] { call_op(shape, BoxedValues{x}); }) ==
        "cpptest::wrong_shape: its shape function gives 2 results, the schema has 1");
  const OpInfo& unsaved = native_op<"cpptest::unsaved(Tensor x) -> Tensor">()
                              .composite(&copied)
                              .gradient("x", [](const Derivative& d) { return d.tensor("x"); })
                              .add();
  const Tensor y = result(call_op(unsaved, BoxedValues{x}));
  CHECK(message_of([&] {
          backward({y}, {of({1, 1})});
        }).find("cpptest::unsaved: its gradient reads 'x', which is not saved") !=
        std::string::npos);
  const OpInfo& several =
      native_op<"cpptest::several(Tensor x, Tensor w) -> Tensor">()
          .composite([](const Tensor& a, const Tensor& b) { return mul(a, b); })
          .gradients({"x", "w"}, [](const Derivative& d) { return std::vector<Tensor>{d.grad()}; })
          .add();
  const Tensor z = result(call_op(several, BoxedValues{x, x}));
  CHECK(message_of([&] {
          backward({z}, {of({1, 1})});
        }).find("cpptest::several: its gradient gives 1 tensors, expected 2") != std::string::npos);
}

TEST_CASE("a result of a composite with a gradient is no argument") {
  const OpInfo& op = native_op<"cpptest::itself(Tensor x) -> Tensor">()
                         .composite([](const Tensor& x) { return x; })
                         .gradient("x", [](const Derivative& d) { return mul(d.grad(), 3.0); })
                         .add();
  const Tensor x = leaf({1, 2});
  const Tensor y = result(call_op(op, BoxedValues{x}));
  CHECK(!y.is_same(x));
  CHECK(&y.storage() != &x.storage());
  backward({y}, {of({1, 1})});
  CHECK(values(grad_of(x)) == std::vector<double>{3, 3});
}

namespace {
template <size_t n>
struct Numbered {
  static constexpr auto schema() {
    char text[] = "cpptest::thread00(Tensor x) -> Tensor";
    text[15] = static_cast<char>('0' + n / 10);
    text[16] = static_cast<char>('0' + n % 10);
    return FixedString(text);
  }
};
template <size_t n>
void add_numbered() {
  native_op<Numbered<n>::schema()>().composite(&copied).add();
}
}  // namespace

TEST_CASE("threads add ops at once, and one of those that want a name gets it") {
  std::atomic<int> added{0}, refused{0}, found{0};
  const auto race = [&] {
    try {
      native_op<"cpptest::raced(Tensor x) -> Tensor">().composite(&copied).add();
      ++added;
    } catch (const Error&) {
      ++refused;
    }
  };
  const auto each = []<size_t... I>(std::index_sequence<I...>) {
    return std::vector<void (*)()>{&add_numbered<I>...};
  }
  (std::make_index_sequence<16>());
  std::vector<std::thread> threads;
  for (void (*add)() : each)
    threads.emplace_back([&, add] {
      add();
      race();
      for (int i = 0; i < 100; ++i) {
        if (find_op("cpptest::no_such") || find_raw_op("cpptest::no_such")) ++found;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(added == 1);
  CHECK(refused == 15);
  CHECK(found == 0);
  CHECK(find_op("cpptest::thread00") != nullptr);
  CHECK(find_op("cpptest::thread15") != nullptr);
}
