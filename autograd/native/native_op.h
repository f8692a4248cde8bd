// autograd/native/native_op.h: ops that are declared in C++ and have all that an op of the table
// has:
//
//   moonlet::native_op<"mylib::snake(Tensor x, float a=1.0) -> Tensor">()
//       .dtypes(moonlet::dtypes::floating)
//       .pointwise([](auto x, auto a) { return x + std::sin(a * x) * std::sin(a * x) / a; })
//       .saves({"x"})
//       .gradient("x", [](const moonlet::Derivative& d) {
//         const double a = d.number("a");
//         return mul(d.grad(), add(sin(mul(d.tensor("x"), 2 * a)), 1.0));
//       })
//       .add();
//
// The schema is in the language of docs/op-table.md; docs/embedding/native_ops.md is the guide. An
// op belongs to the process and is never taken back: modes, programs and graphs point to it. What
// is declared wrongly is an Error that names the op, and nothing is added then.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tensor/core/boxing.h"
#include "tensor/core/op_info.h"
#include "tensor/core/op_schema.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/shapes/result.h"

namespace moonlet {

struct NativeRecord;
class Backward;

// A text as a template argument: native_op<"relu6(Tensor x) -> Tensor">().
template <size_t N>
struct FixedString {
  char text[N];
  constexpr FixedString(const char (&given)[N]) { std::copy_n(given, N, text); }
  constexpr std::string_view view() const { return {text, N - 1}; }
};

// What the gradient of an op sees: the gradients of its results, what it saved, and its plain
// arguments, by their names in the schema. What it does with them is recorded under create_graph.
class Derivative {
 public:
  // The gradient of a result: zeros when none has reached it; given() is undefined then.
  Tensor grad(int result = 0) const;
  const Tensor& given(int result) const;
  // A tensor argument or a result that the op saves (NativeOp::saves).
  Tensor tensor(std::string_view name) const;
  std::vector<Tensor> tensors(std::string_view name) const;
  Operand operand(std::string_view name) const;
  // Whether an optional tensor was given; the sizes and dtype of a tensor argument, saved or not.
  bool has(std::string_view name) const;
  Dims sizes(std::string_view name) const;
  // How many tensors a Tensor[] has.
  size_t count(std::string_view name) const;
  DType dtype(std::string_view name) const;
  // Arguments that are no tensors. Dims are wrapped and count from 0.
  double number(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  bool boolean(std::string_view name) const;
  const BoxedValue& value(std::string_view name) const;
  // Whether the gradient of that argument is of use.
  bool wants(std::string_view name) const;

 private:
  friend class NativeNode;
  Derivative(const class NativeNode& node, Backward& backward) : node_(node), backward_(backward) {}
  const class NativeNode& node_;
  Backward& backward_;
};

// What forward mode gives an op: its arguments, and the tangents of those that have some.
class JvpArguments {
 public:
  Tensor tensor(std::string_view name) const;
  // Undefined where it has none.
  Tensor tangent(std::string_view name) const;
  // As of Derivative.
  double number(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  const BoxedValue& value(std::string_view name) const;

  JvpArguments(const NativeRecord& record, std::span<const BoxedValue> arguments,
               std::span<const BoxedValue> tangents)
      : record_(record), arguments_(arguments), tangents_(tangents) {}

 private:
  const NativeRecord& record_;
  std::span<const BoxedValue> arguments_, tangents_;
};

namespace detail {

using BoxedFunction = void (*)(std::span<const BoxedValue> arguments, BoxedValues& results);

// What an op calls by its schema: an OpInfo has functions without a state, so each schema has some.
struct NativeEntries {
  std::string_view schema;
  const NativeRecord** record;  // once it is added
  BoxedFunction plain, inplace, out, body, raw, raw_inplace, raw_out;
};
enum class NativeEntry : uint8_t { Plain, InPlace, Out, Body, Raw, RawInPlace, RawOut };
void call_native(const NativeRecord& record, NativeEntry entry,
                 std::span<const BoxedValue> arguments, BoxedValues& results);

template <FixedString schema>
struct NativeSlot {
  static inline const NativeRecord* record = nullptr;
  template <NativeEntry entry>
  static void call(std::span<const BoxedValue> arguments, BoxedValues& results) {
    call_native(*record, entry, arguments, results);
  }
};
template <FixedString schema>
NativeEntries native_entries() {
  using Slot = NativeSlot<schema>;
  return {schema.view(),
          &Slot::record,
          &Slot::template call<NativeEntry::Plain>,
          &Slot::template call<NativeEntry::InPlace>,
          &Slot::template call<NativeEntry::Out>,
          &Slot::template call<NativeEntry::Body>,
          &Slot::template call<NativeEntry::Raw>,
          &Slot::template call<NativeEntry::RawInPlace>,
          &Slot::template call<NativeEntry::RawOut>};
}

// --- typed functions -----------------------------------------------------------------------------

template <class F>
struct FunctionType : FunctionType<decltype(&F::operator())> {};
template <class R, class... P>
struct FunctionType<R (*)(P...)> {
  using Result = R;
  using Parameters = std::tuple<P...>;
};
template <class R, class C, class... P>
struct FunctionType<R (C::*)(P...) const> : FunctionType<R (*)(P...)> {};

// What a parameter of an op's function is called: as OpType::cpp.
template <class P>
constexpr const char* parameter_name() {
  using T = std::remove_cvref_t<P>;
  if constexpr (std::is_same_v<T, Tensor>) return "Tensor";
  if constexpr (std::is_same_v<T, std::vector<Tensor>>) return "std::vector<Tensor>";
  if constexpr (std::is_same_v<T, Operand>) return "Operand";
  if constexpr (std::is_same_v<T, Scalar>) return "Scalar";
  if constexpr (std::is_same_v<T, std::optional<Scalar>>) return "std::optional<Scalar>";
  if constexpr (std::is_same_v<T, int64_t>) return "int64_t";
  if constexpr (std::is_same_v<T, std::optional<int64_t>>) return "std::optional<int64_t>";
  if constexpr (std::is_same_v<T, double>) return "double";
  if constexpr (std::is_same_v<T, std::optional<double>>) return "std::optional<double>";
  if constexpr (std::is_same_v<T, bool>) return "bool";
  if constexpr (std::is_same_v<T, std::optional<bool>>) return "std::optional<bool>";
  if constexpr (std::is_same_v<T, std::string>) return "std::string";
  if constexpr (std::is_same_v<T, Dims>) return "Dims";
  if constexpr (std::is_same_v<T, std::vector<int64_t>>) return "std::vector<int64_t>";
  if constexpr (std::is_same_v<T, std::vector<double>>) return "std::vector<double>";
  if constexpr (std::is_same_v<T, DType>) return "DType";
  if constexpr (std::is_same_v<T, std::optional<DType>>) return "std::optional<DType>";
  if constexpr (std::is_same_v<T, Device>) return "Device";
  if constexpr (std::is_same_v<T, std::optional<Device>>) return "std::optional<Device>";
  return "a type that no argument has";
}

// A function of an op, with what its parameters are.
template <class Signature>
struct TypedFunction_ {
  std::function<Signature> call;
  std::vector<const char*> parameters;
};
using NativeKernel = TypedFunction_<void(std::span<const BoxedValue>, std::span<Tensor>)>;
using NativeShape =
    TypedFunction_<std::vector<shapes::Result>(std::span<const BoxedValue> arguments)>;
using NativeBody = TypedFunction_<void(std::span<const BoxedValue>, BoxedValues&)>;

template <class F>
using ParametersOf = typename FunctionType<std::decay_t<F>>::Parameters;

// The boxed values as the tuple of what the parameters hold. Results stand behind the arguments.
template <class... P, size_t... I>
std::tuple<std::remove_cvref_t<P>...> unbox_all(std::tuple<P...>*, std::index_sequence<I...>,
                                                std::span<const BoxedValue> arguments,
                                                std::span<Tensor> results) {
  const auto one = [&]<class T>(size_t i, T*) -> T {
    if constexpr (std::is_same_v<T, Tensor>)
      if (i >= arguments.size()) return results[i - arguments.size()];
    return boxing::unbox<T>(arguments[i], static_cast<int>(i));
  };
  return {one(I, static_cast<std::remove_cvref_t<P>*>(nullptr))...};
}
template <class F, class Values>
decltype(auto) apply_all(const F& f, Values& values) {
  return std::apply([&](auto&... each) -> decltype(auto) { return f(each...); }, values);
}
template <class F>
auto unboxed(std::span<const BoxedValue> arguments, std::span<Tensor> results = {}) {
  using Parameters = ParametersOf<F>;
  return unbox_all(static_cast<Parameters*>(nullptr),
                   std::make_index_sequence<std::tuple_size_v<Parameters>>(), arguments, results);
}
template <class... P>
std::vector<const char*> parameter_names(std::tuple<P...>*) {
  return {parameter_name<P>()...};
}
template <class F>
std::vector<const char*> parameter_names() {
  return parameter_names(static_cast<ParametersOf<F>*>(nullptr));
}

template <class F>
NativeKernel make_kernel(F f) {
  return {[f](std::span<const BoxedValue> arguments, std::span<Tensor> results) {
            auto values = unboxed<F>(arguments, results);
            apply_all(f, values);
          },
          parameter_names<F>()};
}
template <class F>
NativeShape make_shape(F f) {
  return {[f](std::span<const BoxedValue> arguments) -> std::vector<shapes::Result> {
            auto values = unboxed<F>(arguments);
            using R = typename FunctionType<std::decay_t<F>>::Result;
            if constexpr (std::is_void_v<R>) {
              apply_all(f, values);
              return {};
            } else if constexpr (std::is_same_v<R, shapes::Result>) {
              return {apply_all(f, values)};
            } else {
              const auto all = apply_all(f, values);
              return {all.begin(), all.end()};
            }
          },
          parameter_names<F>()};
}
template <class F>
NativeBody make_body(F f) {
  return {[f](std::span<const BoxedValue> arguments, BoxedValues& results) {
            auto values = unboxed<F>(arguments);
            boxing::push_result(results, apply_all(f, values));
          },
          parameter_names<F>()};
}

// --- pointwise -----------------------------------------------------------------------------------

// The functor on elements that lie one after another: the inputs, then the op's numbers.
template <class F, class T, size_t kInputs, size_t kNumbers>
void pointwise_loop(const void* const* in, void* out, size_t n, const Scalar* params) {
  T numbers[kNumbers + 1] = {};
  for (size_t i = 0; i < kNumbers; ++i) numbers[i] = params[i].template to<T>();
  T* const to = static_cast<T*>(out);
  const F f{};
  [&]<size_t... I, size_t... J>(std::index_sequence<I...>, std::index_sequence<J...>) {
    for (size_t k = 0; k < n; ++k)
      to[k] = static_cast<T>(f(static_cast<const T*>(in[I])[k]..., numbers[J]...));
  }
  (std::make_index_sequence<kInputs>(), std::make_index_sequence<kNumbers>());
}

// The loops of a functor for one number of inputs; those of small dtypes are the engine's affair.
struct NativePointwise {
  int inputs, numbers;
  cpu::PointwiseLoops loops{};
  DTypeSet dtypes{};
};
template <class F, class T, size_t... I>
constexpr bool takes_elements(std::index_sequence<I...>) {
  return std::is_invocable_v<const F&, decltype(static_cast<void>(I), T{})...>;
}
template <class T, class F, size_t kInputs, size_t kNumbers>
void add_loop(NativePointwise& to) {
  const cpu::PointwiseLoop loop = &pointwise_loop<F, T, kInputs, kNumbers>;
  if constexpr (std::is_same_v<T, float>) {
    to.loops.f32 = loop;
  } else if constexpr (std::is_same_v<T, double>) {
    to.loops.f64 = loop;
    to.dtypes = to.dtypes | dtypes::floating;
  } else if constexpr (std::is_same_v<T, int64_t>) {
    to.loops.i64 = loop;
    to.dtypes = to.dtypes | dtypes::integral | dtypes::boolean;
  } else if constexpr (std::is_same_v<T, complex64>) {
    to.loops.c64 = loop;
  } else {
    static_assert(std::is_same_v<T, complex128>, "pointwise: no type that ops compute in");
    to.loops.c128 = loop;
    to.dtypes = to.dtypes | dtypes::complex;
  }
}
template <class F, size_t kInputs, size_t kNumbers, class First, class... T>
void add_pointwise(std::vector<NativePointwise>& to) {
  if constexpr (takes_elements<F, First>(std::make_index_sequence<kInputs + kNumbers>())) {
    NativePointwise& made =
        to.emplace_back(NativePointwise{static_cast<int>(kInputs), static_cast<int>(kNumbers)});
    add_loop<First, F, kInputs, kNumbers>(made);
    (add_loop<T, F, kInputs, kNumbers>(made), ...);
  }
}
// For all numbers of inputs that the functor could have; the schema chooses among them.
template <class F, class... T>
std::vector<NativePointwise> pointwise_forms() {
  constexpr size_t kMost = 4;
  std::vector<NativePointwise> out;
  const auto each = [&]<size_t... K>(std::index_sequence<K...>) {
    (add_pointwise<F, K / kMost + 1, K % kMost, T...>(out), ...);
  };
  each(std::make_index_sequence<kMaxPointwiseInputs * kMost>());
  return out;
}

}  // namespace detail

// The declaration of an op. Each function says one thing of it and returns it.
class NativeOp {
 public:
  explicit NativeOp(const detail::NativeEntries& entries);
  ~NativeOp();
  NativeOp(const NativeOp&) = delete;
  NativeOp& operator=(const NativeOp&) = delete;

  // The dtypes of its first tensor, `dtypes::all` where nothing is said; the other tensors have the
  // same one, or with `mixed` any.
  NativeOp& dtypes(DTypeSet set);
  NativeOp& mixed();

  // --- what it computes: one of pointwise, kernel, update and composite

  // A functor of one element, without captures: the tensor arguments, then the numbers, all of the
  // type that is computed in. Named types are those among float (for 16-bit floats too), double,
  // int64_t (all integers and bool), complex64 and complex128 that it takes: float and double where
  // none are. Shapes broadcast and dtypes are promoted as those of `add`.
  template <class... T, class F>
  NativeOp& pointwise(F) {
    static_assert(std::is_empty_v<F>, "pointwise: a functor without captures");
    if constexpr (sizeof...(T) == 0)
      return set_pointwise(detail::pointwise_forms<F, float, double>());
    else
      return set_pointwise(detail::pointwise_forms<F, T...>());
  }
  // The same on another kind of device: a function that launches on the current stream of
  // plan.device (tensor/pointwise/plan.h, tensor/runtime/streams.h).
  NativeOp& pointwise_on(const char* device, void (*launch)(const PointwisePlan& plan));

  // A function of the arguments and then of the results, which are new, as `shape` says, and to be
  // filled: void(const Tensor& x, int64_t dim, Tensor& y). Its tensors may have any strides.
  template <class F>
  NativeOp& kernel(F function) {
    return kernel_on("cpu", std::move(function));
  }
  // The same of another kind of device, "cuda": a function that launches on its current stream.
  template <class F>
  NativeOp& kernel_on(const char* device, F function) {
    return add_kernel(device, detail::make_kernel(std::move(function)));
  }
  // What the results of `kernel` look like: a shapes::Result, or an array of them, of the
  // arguments. It checks them: kernels check nothing that keeps them within memory. Without it
  // there is one result that looks like the first tensor.
  template <class F>
  NativeOp& shape(F function) {
    return set_shape(detail::make_shape(std::move(function)));
  }
  // A function of the arguments that is made of public ops and gives the result, or a std::tuple.
  // It needs no gradient, and no rule for vmap.
  template <class F>
  NativeOp& composite(F function) {
    return set_body(detail::make_body(std::move(function)));
  }

  // --- its derivative

  // The arguments and results that gradients read.
  NativeOp& saves(std::initializer_list<const char*> names);
  // The gradient of an argument; of a Tensor[] a vector of them.
  NativeOp& gradient(const char* argument, std::function<Tensor(const Derivative&)> f);
  NativeOp& gradients(std::initializer_list<const char*> arguments,
                      std::function<std::vector<Tensor>(const Derivative&)> f);
  // Results that carry no gradient.
  NativeOp& nondifferentiable(std::initializer_list<const char*> results);
  // JvpArguments of the results. Without it forward mode differentiates `gradient`, or where the op
  // is `linear` calls the op itself on tangents.
  NativeOp& jvp(std::function<std::vector<Tensor>(const JvpArguments&)> f);
  NativeOp& linear();

  // --- how modes and transforms treat it

  // A rule of autograd/batching.h, or one of your own. Without it a pointwise op broadcasts, and
  // others run sample by sample.
  NativeOp& vmap(void (*rule)(BatchCall& call));
  NativeOp& autocast(AutocastPolicy policy);
  NativeOp& autocast(AutocastPolicies policies);

  // --- forms and names

  // The form `snake_`, which writes over the first argument. Of an op that writes to its first
  // argument (Tensor! x) it is there anyway.
  NativeOp& inplace();
  // No method of tensors.
  NativeOp& no_method();

  // --- texts

  NativeOp& doc(const char* text);
  NativeOp& argument(const char* name, const char* text);
  NativeOp& example(const char* text);
  // Arguments in Lua, as "randn(3, 4), 2.0", by which tests call the op (`declared.samples` of
  // ml.ops.info).
  NativeOp& sample(const char* arguments);

  const OpSchema& schema() const;
  // Adds the op to those of the process. Throws when the name is taken or the declaration is wrong.
  // `owner` stands for the library that the op is of.
  const OpInfo& add(const void* owner = nullptr);

 private:
  NativeOp& set_pointwise(std::vector<detail::NativePointwise> forms);
  NativeOp& add_kernel(const char* device, detail::NativeKernel kernel);
  NativeOp& set_shape(detail::NativeShape shape);
  NativeOp& set_body(detail::NativeBody body);

  std::unique_ptr<NativeRecord> record_;
  const detail::NativeEntries entries_;
};

// Calls an op by its name, one of the table or a declared one, and returns its first result: what a
// gradient that is an op of its own is written with. Each argument is given; dims count from 0.
// Throws where there is no such op, and what the op does.
const OpInfo& op_named(std::string_view name);
template <class... A>
Tensor call_op(std::string_view name, const A&... arguments) {
  const BoxedValues results = call_op(op_named(name), BoxedValues{boxing::box(arguments)...});
  return results.empty() ? Tensor() : boxing::unbox<Tensor>(results[0], 0);
}

// Begins the declaration of an op.
template <FixedString schema>
NativeOp native_op() {
  return NativeOp(detail::native_entries<schema>());
}

}  // namespace moonlet
