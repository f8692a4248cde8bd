// cuda/emulated/include/vector_types.h: dim3 and CUDA's short vector types with their make_
// functions, laid out and aligned as on the device.
#pragma once

#define MOONLET_EMULATED_VECTORS(base, type)                                     \
  struct base##1 {                                                               \
    type x;                                                                      \
  };                                                                             \
  struct alignas(2 * sizeof(type)) base##2 {                                     \
    type x, y;                                                                   \
  };                                                                             \
  struct base##3 {                                                               \
    type x, y, z;                                                                \
  };                                                                             \
  struct alignas(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type)) base##4 {        \
    type x, y, z, w;                                                             \
  };                                                                             \
  constexpr base##1 make_##base##1(type x) { return {x}; }                       \
  constexpr base##2 make_##base##2(type x, type y) { return {x, y}; }            \
  constexpr base##3 make_##base##3(type x, type y, type z) { return {x, y, z}; } \
  constexpr base##4 make_##base##4(type x, type y, type z, type w) { return {x, y, z, w}; }

MOONLET_EMULATED_VECTORS(char, signed char)
MOONLET_EMULATED_VECTORS(uchar, unsigned char)
MOONLET_EMULATED_VECTORS(short, short)
MOONLET_EMULATED_VECTORS(ushort, unsigned short)
MOONLET_EMULATED_VECTORS(int, int)
MOONLET_EMULATED_VECTORS(uint, unsigned int)
MOONLET_EMULATED_VECTORS(longlong, long long)
MOONLET_EMULATED_VECTORS(ulonglong, unsigned long long)
MOONLET_EMULATED_VECTORS(float, float)
MOONLET_EMULATED_VECTORS(double, double)

#undef MOONLET_EMULATED_VECTORS

/// Sizes of a grid or a block; what is not given is 1.
struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)
      : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
