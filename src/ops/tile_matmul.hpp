// Products of small matrices that lie in the cache, for attention.
//
// Vectors are the compiler's own extension (GCC and Clang): the loops of a micro-kernel
// must keep their accumulators in registers, which loops over plain arrays do not
// promise.
#pragma once

#include <cstring>
#include <utility>

#include "llmtrain/core/types.hpp"
#include "llmtrain/tensor/half.hpp"

namespace llmtrain::ops::cpu {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16, kPanelVectors = 4;
#elif defined(__AVX__)
inline constexpr int kLanes = 8, kPanelVectors = 2;
#else
inline constexpr int kLanes = 4, kPanelVectors = 2;
#endif
inline constexpr int kPanelRows = 4;

using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

inline Lanes load(const float* from) {
  Lanes result;
  std::memcpy(&result, from, sizeof result);
  return result;
}
template <class T>
Lanes load(const T* from) {
  float values[kLanes];
  for (int i = 0; i < kLanes; ++i) values[i] = to_float(from[i]);
  return load(values);
}
inline void store(float* to, Lanes value) { std::memcpy(to, &value, sizeof value); }

// Elements of the left matrix: (i, k) is data[i * row + k * column], so that a transposed
// matrix needs no copy.
struct LeftMatrix {
  const float* data;
  index_t row, column;
};

// c[kPanelRows, vectors * kLanes] += a[kPanelRows, depth] b[depth, vectors * kLanes]
template <int vectors>
void multiply_panel(float* c, index_t ldc, LeftMatrix a, const float* b, index_t ldb,
                    index_t depth) {
  Lanes sums[kPanelRows][vectors];
#pragma GCC unroll 8
  for (int i = 0; i < kPanelRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) sums[i][v] = load(c + i * ldc + v * kLanes);
  }
  for (index_t k = 0; k < depth; ++k) {
    Lanes right[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) right[v] = load(b + k * ldb + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kPanelRows; ++i) {
      const float left = a.data[i * a.row + k * a.column];
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sums[i][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kPanelRows; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) store(c + i * ldc + v * kLanes, sums[i][v]);
  }
}

// c[rows, columns] += a[rows, depth] b[depth, columns]; rows is a multiple of kPanelRows
// and columns of kLanes.
inline void multiply_add(float* c, index_t ldc, LeftMatrix a, const float* b, index_t ldb,
                         index_t rows, index_t columns, index_t depth) {
  index_t j = 0;
  for (; j + kPanelVectors * kLanes <= columns; j += kPanelVectors * kLanes) {
    for (index_t i = 0; i < rows; i += kPanelRows) {
      multiply_panel<kPanelVectors>(
          c + i * ldc + j, ldc, {a.data + i * a.row, a.row, a.column}, b + j, ldb, depth);
    }
  }
  for (; j < columns; j += kLanes) {
    for (index_t i = 0; i < rows; i += kPanelRows) {
      multiply_panel<1>(c + i * ldc + j, ldc, {a.data + i * a.row, a.row, a.column},
                        b + j, ldb, depth);
    }
  }
}

// a0 b0 a1 b1 ... of the lower (half 0) or upper (half 1) lanes of a and b.
template <int half, int... lane>
Lanes interleave(Lanes a, Lanes b, std::integer_sequence<int, lane...>) {
  return __builtin_shufflevector(
      a, b, (half * kLanes / 2 + lane / 2 + (lane % 2 == 0 ? 0 : kLanes))...);
}

// to[kLanes, kLanes] = transposed from. Interleaving the first half of the rows with the
// second moves the highest bit of an element's row to the lowest of its column; done once
// for each bit, rows and columns have changed places.
template <class T>
void transpose_block(float* to, index_t ldt, const T* from, index_t ldf) {
  using Sequence = std::make_integer_sequence<int, kLanes>;
  Lanes rows[kLanes], next[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) rows[i] = load(from + i * ldf);
#pragma GCC unroll 4
  for (int width = 1; width < kLanes; width *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = interleave<0>(rows[i], rows[i + kLanes / 2], Sequence());
      next[2 * i + 1] = interleave<1>(rows[i], rows[i + kLanes / 2], Sequence());
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = next[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) store(to + i * ldt, rows[i]);
}

}  // namespace llmtrain::ops::cpu
