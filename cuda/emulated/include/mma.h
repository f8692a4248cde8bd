// cuda/emulated/include/mma.h: the tensor-core instructions of cuda/kernels/common/mma.cuh as
// functions of a warp's fibers: each lane lays its registers down where the instruction's layout
// says, and takes its part of the product. Products of factors are exact and sums are of float, in
// order.
#pragma once

#include <cstdint>
#include <cstring>

#include "grid.h"

namespace moonlet::emulated {

/// What the lanes of a warp show each other.
struct MmaBoard {
  float a[16][16], b[16][8];
  const unsigned char* rows[kWarpSize];
};

/// Of the calling thread's warp; a block has one thread of the host.
inline MmaBoard& mma_board() {
  static thread_local MmaBoard boards[kMaxThreads / kWarpSize];
  return boards[context.thread / kWarpSize];
}

/// c (16, 8) += a (16, depth) b (depth, 8), of what lies on the board.
inline void multiply_board(MmaBoard& board, float (&c)[4], int depth) {
  sync_warp(0xffffffffu);
  const unsigned lane = context.thread % kWarpSize, group = lane / 4, pair = lane % 4;
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = group + i / 2 * 8, col = 2 * pair + i % 2;
    for (int k = 0; k < depth; ++k) c[i] += board.a[row][k] * board.b[k][col];
  }
  sync_warp(0xffffffffu);
}

/// mma.sync.aligned.m16n8k16.row.col with 16-bit factors of type T, two in a word, lower one first.
template <class T>
void mma_16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  MmaBoard& board = mma_board();
  const unsigned lane = context.thread % kWarpSize, group = lane / 4, pair = lane % 4;
  const auto value = [](std::uint32_t word, unsigned upper) {
    T out;
    out.bits = static_cast<std::uint16_t>(word >> 16 * upper);
    return static_cast<float>(out);
  };
  for (unsigned upper = 0; upper < 2; ++upper) {
    for (unsigned r = 0; r < 4; ++r)
      board.a[group + r % 2 * 8][2 * pair + r / 2 * 8 + upper] = value(a[r], upper);
    for (unsigned r = 0; r < 2; ++r) board.b[2 * pair + r * 8 + upper][group] = value(b[r], upper);
  }
  multiply_board(board, c, 16);
}

/// mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32: of the factors the upper 19 bits count.
inline void mma_tf32(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  MmaBoard& board = mma_board();
  const unsigned lane = context.thread % kWarpSize, group = lane / 4, pair = lane % 4;
  const auto value = [](std::uint32_t word) {
    const std::uint32_t seen = word & 0xffffe000u;
    float out;
    std::memcpy(&out, &seen, sizeof out);
    return out;
  };
  for (unsigned r = 0; r < 4; ++r) board.a[group + r % 2 * 8][pair + r / 2 * 4] = value(a[r]);
  for (unsigned r = 0; r < 2; ++r) board.b[pair + r * 4][group] = value(b[r]);
  multiply_board(board, c, 8);
}

/// ldmatrix.sync.aligned.m8n8.x4.shared.b16: lane 8 m + i gives the address of row i of matrix m.
inline void load_matrices(std::uint32_t (&out)[4], const void* row, bool transposed) {
  if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
    fail_launch("ldmatrix: a row begins at no multiple of 16 bytes");
  MmaBoard& board = mma_board();
  const unsigned lane = context.thread % kWarpSize, group = lane / 4, pair = lane % 4;
  board.rows[lane] = static_cast<const unsigned char*>(row);
  sync_warp(0xffffffffu);
  for (unsigned m = 0; m < 4; ++m)
    for (unsigned upper = 0; upper < 2; ++upper) {
      const unsigned i = 2 * pair + upper;
      const unsigned char* at =
          transposed ? board.rows[8 * m + i] + 2 * group : board.rows[8 * m + group] + 2 * i;
      std::memcpy(reinterpret_cast<unsigned char*>(&out[m]) + 2 * upper, at, 2);
    }
  sync_warp(0xffffffffu);
}

}  // namespace moonlet::emulated
