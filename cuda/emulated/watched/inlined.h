// cuda/emulated/watched/inlined.h: declared ahead of device_functions.h where kernels are watched:
// fences and atomics become a part of each kernel. Elsewhere the linker would take one copy for all
// files, that of a file that is not watched, and what orders blocks would not be seen.
#pragma once

#include <type_traits>

#define MOONLET_INLINED inline __attribute__((always_inline))

namespace moonlet::emulated {
template <class T, class F>
MOONLET_INLINED T atomic_update(T* address, F next);
}

MOONLET_INLINED void __threadfence();
MOONLET_INLINED void __threadfence_block();
MOONLET_INLINED void __threadfence_system();

#define MOONLET_INLINED_ATOMIC(name) \
  template <class T>                 \
  MOONLET_INLINED T name(T* address, std::type_identity_t<T> value);
MOONLET_INLINED_ATOMIC(atomicAdd)
MOONLET_INLINED_ATOMIC(atomicSub)
MOONLET_INLINED_ATOMIC(atomicMax)
MOONLET_INLINED_ATOMIC(atomicMin)
MOONLET_INLINED_ATOMIC(atomicAnd)
MOONLET_INLINED_ATOMIC(atomicOr)
MOONLET_INLINED_ATOMIC(atomicXor)
MOONLET_INLINED_ATOMIC(atomicExch)
#undef MOONLET_INLINED_ATOMIC
template <class T>
MOONLET_INLINED T atomicCAS(T* address, std::type_identity_t<T> compare,
                            std::type_identity_t<T> value);
MOONLET_INLINED unsigned atomicInc(unsigned* address, unsigned most);
MOONLET_INLINED unsigned atomicDec(unsigned* address, unsigned most);
#undef MOONLET_INLINED
