// tensor/core/kernel_call.h: kernels called with boxed arguments, into results that exist: for who
// has checked a call once and makes it again on tensors of the same geometry.
#pragma once

#include <tuple>

#include "tensor/core/boxing.h"
#include "tensor/core/dispatch.h"

namespace moonlet::boxing {

// An argument of a kernel. Tensors and lists stay where they are.
template <class P>
decltype(auto) kernel_argument(const BoxedValue& value, int position) {
  using T = std::remove_cvref_t<P>;
  static const T none{};
  if constexpr (std::is_same_v<T, Tensor>) {
    const bool given = std::holds_alternative<Tensor>(value);
    return static_cast<const Tensor&>(given ? std::get<Tensor>(value) : none);
  } else if constexpr (std::is_same_v<T, std::vector<Tensor>> || std::is_same_v<T, Dims> ||
                       std::is_same_v<T, std::vector<int64_t>> ||
                       std::is_same_v<T, std::vector<double>>) {
    return held_in<T>(value, position);
  } else {
    return unbox<T>(value, position);
  }
}

// The kernel `kernel` of the family `family`, both members of tables: its results come last.
template <auto family, auto kernel>
struct KernelCall;
template <class Kernels, const Kernels* KernelTable::*family, class... P,
          void (*Kernels::*kernel)(P...)>
struct KernelCall<family, kernel> {
  static constexpr size_t results = (0 + ... + size_t{std::is_same_v<P, Tensor&>});
  static constexpr size_t arguments = sizeof...(P) - results;

  static void run(std::span<const BoxedValue> in, std::span<Tensor> out) {
    static_assert(results > 0);
    const Kernels& table = *(kernels_for(out[0].device().type, "program").*family);
    call(table.*kernel, in, out, std::make_index_sequence<arguments>(),
         std::make_index_sequence<results>());
  }

 private:
  template <size_t i>
  using Parameter = std::tuple_element_t<i, std::tuple<P...>>;
  template <size_t... I, size_t... R>
  static void call(void (*function)(P...), std::span<const BoxedValue> in, std::span<Tensor> out,
                   std::index_sequence<I...>, std::index_sequence<R...>) {
    function(kernel_argument<Parameter<I>>(in[I], static_cast<int>(I))..., out[R]...);
  }
};

}  // namespace moonlet::boxing
