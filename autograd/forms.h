// autograd/forms.h: what each form of a public op does, written once for the generated functions:
// it hands the call to the modes when there are any, runs the op without the tape (`below`), and
// records it when an input requires grad. Arguments are in the order of the row.
#pragma once

#include <array>

#include "autograd/batching.h"
#include "autograd/history.h"
#include "autograd/recording.h"
#include "tensor/core/boxing.h"
#include "tensor/core/dispatch.h"
#include "tensor/program/captured_call.h"
#include "tensor/program/parts/deferred_call.h"

namespace moonlet::forms {

template <class T>
inline constexpr bool is_input = std::is_same_v<T, Tensor> || std::is_same_v<T, Operand> ||
                                 std::is_same_v<T, std::vector<Tensor>>;

// The arguments that are tensors.
template <class... A>
[[gnu::always_inline]] inline auto tape_inputs(const A&... arguments) {
  std::array<RecordedInput, (0 + ... + int{is_input<A>})> out;
  [[maybe_unused]] RecordedInput* next = out.data();
  const auto put = [&](const auto& argument) {
    if constexpr (is_input<std::remove_cvref_t<decltype(argument)>>) *next++ = argument;
  };
  (put(arguments), ...);
  return out;
}

// Whether a call is recorded: grad mode is on, and an argument with a gradient requires it.
template <const Formula& formula, class... A>
[[gnu::always_inline]] inline bool is_recorded(const A&... arguments) {
  if (!grad_enabled()) return false;
  int slot = 0;
  const auto counts = [&](const auto& argument) {
    if constexpr (is_input<std::remove_cvref_t<decltype(argument)>>)
      return (formula.differentiable >> slot++ & 1u) != 0 && requires_grad(argument);
    return false;
  };
  return (counts(arguments) || ...);
}

template <class... A>
inline bool any_requires_grad(const A&... arguments) {
  const auto requires_it = [](const auto& argument) {
    if constexpr (is_input<std::remove_cvref_t<decltype(argument)>>) return requires_grad(argument);
    return false;
  };
  return (requires_it(arguments) || ...);
}

inline std::array<const Tensor*, 1> addresses(const Tensor& result) { return {&result}; }
template <class... T>
std::array<const Tensor*, sizeof...(T)> addresses(const std::tuple<T...>& results) {
  return std::apply([](const auto&... each) { return std::array{&each...}; }, results);
}

template <class... A>
BoxedValues boxed(const A&... arguments) {
  BoxedValues out;
  out.reserve(sizeof...(A));
  (out.push_back(boxing::box(arguments)), ...);
  return out;
}

// Where there are vmaps or captures: on batched tensors an op is its rule for a whole batch, a
// capture of this thread writes it down, and a function that runs by parts may put it off.
template <auto below, class... A>
[[gnu::noinline, gnu::cold]] auto run_observed(const OpInfo& op, const A&... arguments) {
  using Result = decltype(below(arguments...));
  if (meets_vmap(op, arguments...))
    return boxing::call_through<Result>(run_batched, op, arguments...);
  if (program::meets_deferral(op)) {
    program::DeferredCall call(op, boxed(arguments...));
    if (call.is_put_off()) return boxing::Results<Result>::take(call.results());
    Result made = below(arguments...);
    BoxedValues values;
    boxing::push_result(values, Result(made));
    call.finish(values);
    return made;
  }
  if (!program::meets_capture(op)) return below(arguments...);
  program::CapturedCall call(op, boxed(arguments...));
  Result result = below(arguments...);
  BoxedValues results;
  boxing::push_result(results, Result(result));
  call.finish(results);
  return result;
}
template <auto below, class... A>
[[gnu::noinline, gnu::cold]] Tensor& run_inplace_observed(const OpInfo& op, Tensor& x,
                                                          const A&... arguments) {
  if (meets_vmap(op, x, arguments...))
    return boxing::call_through<Tensor>(run_batched, op, x, arguments...), x;
  if (program::meets_deferral(op)) {
    program::DeferredCall call(op, boxed(x, arguments...));
    if (call.is_put_off()) return x;
    below(x, arguments...);
    call.finish(boxed(x));
    return x;
  }
  if (!program::meets_capture(op)) return below(x, arguments...);
  program::CapturedCall call(op, boxed(x, arguments...));
  below(x, arguments...);
  call.finish(boxed(x));
  return x;
}

// Runs the op without the tape.
template <auto below, class... A>
[[gnu::always_inline]] inline auto run(const OpInfo& op, const A&... arguments) {
  if (any_below_tape()) [[unlikely]]
    return run_observed<below>(op, arguments...);
  return below(arguments...);
}

// The same for a change in place.
template <auto below, class... A>
[[gnu::always_inline]] inline Tensor& run_inplace(const OpInfo& op, Tensor& x,
                                                  const A&... arguments) {
  if (any_below_tape()) [[unlikely]]
    return run_inplace_observed<below>(op, x, arguments...);
  return below(x, arguments...);
}

// An op that is not recorded: it has no gradient, or is made of ops that have.
template <auto below, class... A>
[[gnu::always_inline]] inline auto plain(const OpInfo& op, const A&... arguments) {
  using Result = decltype(below(arguments...));
  if (intercepted()) [[unlikely]]
    return boxing::call_through<Result>(intercept, op, arguments...);
  return run<below>(op, arguments...);
}

template <const Formula& formula, auto below, auto gradients, class... A>
[[gnu::always_inline]] inline auto recorded(const OpInfo& op, const A&... arguments) {
  using Result = decltype(below(arguments...));
  if (intercepted()) [[unlikely]]
    return boxing::call_through<Result>(intercept, op, arguments...);
  Result result = run<below>(op, arguments...);
  if (is_recorded<formula>(arguments...)) [[unlikely]]
    record(formula, gradients(arguments...), tape_inputs(arguments...), addresses(result));
  return result;
}

// The public op `again` makes the view once more.
template <auto again, class... A>
[[gnu::always_inline]] inline void note_view_by(const Tensor& y, const Tensor& x,
                                                const A&... arguments) {
  static_assert(!(std::is_same_v<A, std::string_view> || ...), "the recipe would not own the text");
  note_view(y, x, [... held = arguments](const Tensor& base) { return again(base, held...); });
}

template <auto below, auto again, class... A>
[[gnu::always_inline]] inline Tensor plain_view(const OpInfo& op, const Tensor& x,
                                                const A&... arguments) {
  if (intercepted()) [[unlikely]]
    return boxing::call_through<Tensor>(intercept, op, x, arguments...);
  Tensor result = run<below>(op, x, arguments...);
  note_view_by<again>(result, x, arguments...);
  return result;
}

template <const Formula& formula, auto below, auto gradients, auto again, class... A>
[[gnu::always_inline]] inline Tensor recorded_view(const OpInfo& op, const Tensor& x,
                                                   const A&... arguments) {
  if (intercepted()) [[unlikely]]
    return boxing::call_through<Tensor>(intercept, op, x, arguments...);
  Tensor result = run<below>(op, x, arguments...);
  note_view_by<again>(result, x, arguments...);
  if (is_recorded<formula>(x, arguments...)) [[unlikely]]
    record(formula, gradients(x, arguments...), tape_inputs(x, arguments...), addresses(result));
  return result;
}

// An in-place form without a derivative.
template <auto below, class... A>
[[gnu::always_inline]] inline Tensor& inplace(const OpInfo& op, Tensor& x, const A&... arguments) {
  if (intercepted()) [[unlikely]]
    return boxing::call_through<Tensor>(intercept, op, x, arguments...), x;
  check_inplace_without_derivative(x, op.name);
  return run_inplace<below>(op, x, arguments...);
}

template <const Formula& formula, auto below, auto gradients, class... A>
[[gnu::always_inline]] inline Tensor& recorded_inplace(const OpInfo& op, Tensor& x,
                                                       const A&... arguments) {
  if (intercepted()) [[unlikely]]
    return boxing::call_through<Tensor>(intercept, op, x, arguments...), x;
  if (!is_recorded<formula>(x, arguments...) || !is_differentiable(x.dtype())) {
    check_unrecorded(x, op.name);
    return run_inplace<below>(op, x, arguments...);
  }
  auto change =
      record_inplace(formula, gradients(x, arguments...), op.name, x, tape_inputs(x, arguments...));
  run_inplace<below>(op, x, arguments...);
  change.finish(x);
  return x;
}

// The in-place form of the public op `view`: x gets the geometry of the view.
template <auto view, class... A>
[[gnu::always_inline]] inline Tensor& restrided(const OpInfo& op, Tensor& x,
                                                const A&... arguments) {
  if (intercepted()) [[unlikely]]
    return boxing::call_through<Tensor>(intercept, op, x, arguments...), x;
  return restride_(x, op.name, [&](const Tensor& t) { return view(t, arguments...); });
}

// The in-place form of an op without a kernel for it: the result of the public op `plain_form`,
// written over x.
template <auto plain_form, class... A>
[[gnu::always_inline]] inline Tensor& assigned(const OpInfo& op, Tensor& x, const A&... arguments) {
  if (intercepted()) [[unlikely]]
    return boxing::call_through<Tensor>(intercept, op, x, arguments...), x;
  return assign_(x, plain_form(before_change(x), arguments...), op.name);
}

template <class... A>
[[gnu::always_inline]] inline void refuse_out_in_vmap(const OpInfo& op, const A&... arguments) {
  if (any_batch_level()) [[unlikely]]
    if ((is_batched(arguments) || ...)) fail_out_in_vmap(op.row->name);
}

// The out forms write to `out`, a tensor or a tuple of references.
template <class... A>
[[gnu::always_inline]] inline bool out_intercepted(const OpInfo& op, Tensor& out,
                                                   const A&... arguments) {
  if (intercepted()) [[unlikely]] {
    boxing::call_through<Tensor>(intercept, op, out, arguments...);
    return true;
  }
  if (grad_enabled() && any_requires_grad(out, arguments...)) fail_out_gradient(op.row->name);
  refuse_out_in_vmap(op, out, arguments...);
  return false;
}
template <class... O, class... A>
[[gnu::always_inline]] inline bool out_intercepted(const OpInfo& op, std::tuple<O&...> outs,
                                                   const A&... arguments) {
  return std::apply(
      [&](auto&... each) {
        if (intercepted()) [[unlikely]] {
          boxing::call_through<std::tuple<O...>>(intercept, op, each..., arguments...);
          return true;
        }
        if (grad_enabled() && any_requires_grad(each..., arguments...))
          fail_out_gradient(op.row->name);
        refuse_out_in_vmap(op, each..., arguments...);
        return false;
      },
      outs);
}

template <auto below, class... A>
[[gnu::noinline, gnu::cold]] void out_captured(const OpInfo& op, A&... outs_and_arguments) {
  program::CapturedCall call(op, boxed(outs_and_arguments...));
  below(outs_and_arguments...);
  BoxedValues results = boxed(outs_and_arguments...);
  results.resize(op.row->result_count);
  call.finish(results);
}

// With a kernel that writes there.
template <auto below, class... A>
[[gnu::always_inline]] inline Tensor& out(const OpInfo& op, Tensor& out, const A&... arguments) {
  if (out_intercepted(op, out, arguments...)) return out;
  program::end_part(op);
  if (any_below_tape() && program::meets_capture(op)) [[unlikely]]
    out_captured<below>(op, out, arguments...);
  else
    below(out, arguments...);
  return out;
}
template <auto below, class... O, class... A>
[[gnu::always_inline]] inline auto out(const OpInfo& op, std::tuple<O&...> outs,
                                       const A&... arguments) {
  if (out_intercepted(op, outs, arguments...)) return outs;
  program::end_part(op);
  std::apply(
      [&](auto&... each) {
        if (any_below_tape() && program::meets_capture(op)) [[unlikely]]
          out_captured<below>(op, each..., arguments...);
        else
          below(each..., arguments...);
      },
      outs);
  return outs;
}

// Without one: the results of `below`, copied there.
template <auto below, class... A>
inline Tensor& stored(const OpInfo& op, Tensor& out, const A&... arguments) {
  if (out_intercepted(op, out, arguments...)) return out;
  program::end_part(op);
  const Tensor result = below(arguments...);
  program::note_stored(op);
  store_out(op.row->name, out, result);
  return out;
}
template <auto below, class... O, class... A>
inline auto stored(const OpInfo& op, std::tuple<O&...> outs, const A&... arguments) {
  if (out_intercepted(op, outs, arguments...)) return outs;
  program::end_part(op);
  const auto results = below(arguments...);
  program::note_stored(op);
  [&]<size_t... I>(std::index_sequence<I...>) {
    (store_out(op.row->name, std::get<I>(outs), std::get<I>(results)), ...);
  }
  (std::index_sequence_for<O...>());
  return outs;
}

}  // namespace moonlet::forms
