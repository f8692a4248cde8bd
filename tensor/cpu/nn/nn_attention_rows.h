// tensor/cpu/nn/nn_attention_rows.h: what attention does to the rows of a block of scores, between
// the products. `wide` says that elements are of float64, else they are of float32.
#pragma once

#include <cstdint>
#include <optional>

#include "tensor/functors/random_transforms.h"

namespace moonlet::cpu {

// The rows of blocks of scores begin at multiples of this many elements, a whole number of vectors.
inline constexpr int64_t kScoreLanes = 16;

// Dropout of the weights of a block, whose first row's mask begins at block `first` of the random
// numbers; each row has `row_blocks` of them, as draws::row_blocks says.
struct ScoreDropout {
  Philox rng;
  uint64_t first, row_blocks;
  draws::Under dropped;
  double kept;
};

// Scores of `rows` queries and `keys` keys. The first query sees `seen` of them, and each query as
// many, or with `causal` one more than the query before. Strides are in elements.
struct ScoreBlock {
  void* scores;
  int64_t rows, keys, stride;
  int64_t seen;
  bool causal;
  const void* mask;  // null without one: bools of what is seen, or numbers to be added
  bool mask_is_bool;
  int64_t mask_row, mask_col;
  std::optional<ScoreDropout> dropout;
};

// The softmax goes on with a block: the scores become exp(score - top), where top (rows) is the
// greatest one so far; `sum` (rows) is what they add up to before dropout, and `factor` (rows) what
// earlier results are to be multiplied with, as their top was another.
void attention_weights(bool wide, const ScoreBlock& block, void* top, void* sum, void* factor);
// What the results are multiplied with at the end, and the logarithm of the sum of exp(score),
// infinite where a query has seen nothing.
void attention_ends(bool wide, int64_t rows, const void* top, const void* sum, void* factor,
                    void* logsumexp);
// The scores become weights again, by their logsumexp (rows); `grads`, laid out as they, the
// gradients of the weights after dropout, become those of the scores. `dots` (rows) are the sums of
// gradient times weight over all keys.
void attention_backward(bool wide, const ScoreBlock& block, void* grads, const void* logsumexp,
                        const void* dots);

// x (rows, cols) times a factor for each row.
void scale_rows(bool wide, void* x, int64_t rows, int64_t cols, int64_t stride, const void* factor);
// The sum of a * b for each row.
void dot_rows(bool wide, const void* a, int64_t a_stride, const void* b, int64_t b_stride,
              int64_t rows, int64_t cols, void* sums);

}  // namespace moonlet::cpu
