// What forward and backward attention share: tiles, packing, masks.
//
// Legend: T tokens of a sequence, D head_dim, P = D rounded up to whole vectors. A tile
// is kQueries x kKeys scores. Packed arrays have their tokens rounded up to whole tiles
// and P columns, the padding zero, so that the products need no tails.
#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/cpu_kernels.hpp"
#include "ops/dropout_factors.hpp"
#include "ops/tile_matmul.hpp"

namespace llmtrain::ops::cpu {

inline constexpr index_t kQueries = 32, kKeys = 64;
static_assert(kKeys % kLanes == 0 && kQueries % kPanelRows == 0 && kKeys % kQueries == 0);

// Hands out pieces of one thread's scratch; with a null base it only counts.
class Carver {
 public:
  explicit Carver(float* base) : base_(base) {}
  float* take(index_t floats) {
    float* const piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += round_up(floats, 16);  // keeps pieces on cache lines
    return piece;
  }
  index_t used() const { return used_; }

 private:
  float* base_;
  index_t used_ = 0;
};

// A head's columns within rows of a tensor.
template <class T>
struct HeadRows {
  T* data;
  index_t stride;
  T* row(index_t t) const { return data + t * stride; }
};

// The columns of the `head`-th head, of whatever kind, of one sequence.
template <class T>
HeadRows<T> head_rows(TensorView tensor, const AttentionShape& shape, index_t sequence,
                      index_t head) {
  const index_t stride = tensor.shape()[1];
  return {tensor.data<std::remove_const_t<T>>() + sequence * shape.seq_len * stride +
              head * shape.head_dim,
          stride};
}

// to[rows of tile, padded_dim] = scale * from, zeros beyond `valid` rows and head_dim.
template <class T>
void pack_rows(float* to, HeadRows<T> from, index_t begin, index_t valid, index_t rows,
               index_t head_dim, index_t padded_dim, float scale) {
  for (index_t i = 0; i < rows; ++i) {
    float* const row = to + i * padded_dim;
    const index_t filled = i < valid ? head_dim : 0;
    const T* const source = filled ? from.row(begin + i) : nullptr;
#pragma omp simd
    for (index_t d = 0; d < filled; ++d) row[d] = scale * to_float(source[d]);
    std::fill(row + filled, row + padded_dim, 0.0f);
  }
}

// to[head_dim, kKeys] = transposed rows, zeros beyond `valid` keys.
template <class T>
void pack_transposed(float* to, HeadRows<T> from, index_t begin, index_t valid,
                     index_t head_dim) {
  for (index_t j = 0; j < kKeys; j += kLanes) {
    index_t d = 0;
    for (; j + kLanes <= valid && d + kLanes <= head_dim; d += kLanes) {
      transpose_block(to + d * kKeys + j, kKeys, from.row(begin + j) + d, from.stride);
    }
    for (; d < head_dim; ++d) {
      for (index_t i = j; i < j + kLanes; ++i) {
        to[d * kKeys + i] = i < valid ? to_float(from.row(begin + i)[d]) : 0.0f;
      }
    }
  }
}

// What the queries of one sequence may see.
class Visibility {
 public:
  Visibility(const AttentionMask& mask, index_t sequence, index_t seq_len)
      : starts_(mask.document_starts.count() == 0
                    ? nullptr
                    : mask.document_starts.data<std::int32_t>() + sequence * seq_len),
        seq_len_(seq_len) {}

  index_t start(index_t query) const { return starts_ == nullptr ? 0 : starts_[query]; }

  // The range of first visible keys over the queries [begin, begin + kQueries).
  struct Starts {
    index_t least, most;
  };
  Starts starts(index_t begin) const {
    if (starts_ == nullptr) return {0, 0};
    const auto [least, most] = std::minmax_element(
        starts_ + begin, starts_ + std::min(begin + kQueries, seq_len_));
    return {*least, *most};
  }

 private:
  const std::int32_t* starts_;
  index_t seq_len_;
};

// Does a tile hold pairs that are not visible? (Keys beyond the sequence never are,
// because they come after every query.)
inline bool needs_mask(Visibility::Starts starts, index_t first_query,
                       index_t first_key) {
  return first_key + kKeys - 1 > first_query || starts.most > first_key;
}

}  // namespace llmtrain::ops::cpu
