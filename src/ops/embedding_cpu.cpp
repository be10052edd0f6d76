// Embeddings on the CPU.
#include <algorithm>
#include <cassert>
#include <numeric>

#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops::cpu {

void embedding_forward(TensorView y, TensorView ids, TensorView tokens_table,
                       TensorView positions_table, index_t seq_len) {
  with_type(y.dtype(), [&]<class T>(TypeTag<T>) {
    const index_t tokens = y.shape()[0], width = y.shape()[1];
    const bool with_positions = positions_table.count() > 0;
#pragma omp parallel for schedule(static)
    for (index_t t = 0; t < tokens; ++t) {
      const index_t id = ids.data<std::int32_t>()[t];
      assert(id >= 0 && id < tokens_table.shape()[0]);
      const T* const token = tokens_table.data<T>() + id * width;
      T* const to = y.data<T>() + t * width;
      if (!with_positions) {
        std::copy_n(token, width, to);
        continue;
      }
      const T* const position = positions_table.data<T>() + (t % seq_len) * width;
#pragma omp simd
      for (index_t c = 0; c < width; ++c) {
        to[c] = from_float<T>(to_float(token[c]) + to_float(position[c]));
      }
    }
  });
}

namespace {

constexpr index_t kColumns = 128;  // of a row that a thread sums at once

// to[0, count) += the rows of dy that next() names, in that order, until it says -1.
template <class T, class G, class Next>
void add_rows(G* to, const T* dy, index_t width, index_t count, Next next) {
  alignas(64) float sums[kColumns];
  for (index_t c = 0; c < count; ++c) sums[c] = to_float(to[c]);
  for (index_t row = next(); row >= 0; row = next()) {
    const T* const from = dy + row * width;
#pragma omp simd
    for (index_t c = 0; c < count; ++c) sums[c] += to_float(from[c]);
  }
  for (index_t c = 0; c < count; ++c) to[c] = from_float<G>(sums[c]);
}

}  // namespace

// Several tokens may add to one row of the table, so the threads split the columns, and the
// tokens are sorted by row, in order within a row.
void embedding_backward(TensorView dtokens, TensorView dpositions, TensorView dy,
                        TensorView ids, index_t seq_len, TensorView order) {
  const index_t tokens = dy.shape()[0], width = dy.shape()[1];
  const std::int32_t* const id = ids.data<std::int32_t>();
  std::int32_t* const sorted = order.data<std::int32_t>();
  std::iota(sorted, sorted + tokens, 0);
  std::sort(sorted, sorted + tokens, [id](std::int32_t a, std::int32_t b) {
    return id[a] != id[b] ? id[a] < id[b] : a < b;
  });
  assert(tokens == 0 ||
         (id[sorted[0]] >= 0 && id[sorted[tokens - 1]] < dtokens.shape()[0]));
  const index_t positions = dpositions.count() > 0 ? std::min(seq_len, tokens) : 0;
  with_types(dy.dtype(), dtokens.dtype(), [&]<class T, class G>(TypeTag<T>, TypeTag<G>) {
#pragma omp parallel for schedule(static)
    for (index_t begin = 0; begin < width; begin += kColumns) {
      const index_t count = std::min(kColumns, width - begin);
      const T* const from = dy.data<T>() + begin;
      for (index_t i = 0; i < tokens;) {
        const std::int32_t row = id[sorted[i]];
        add_rows(dtokens.data<G>() + row * width + begin, from, width, count, [&] {
          return i < tokens && id[sorted[i]] == row ? index_t{sorted[i++]} : -1;
        });
      }
      for (index_t p = 0; p < positions; ++p) {
        add_rows(
            dpositions.data<G>() + p * width + begin, from, width, count,
            [&, t = p - seq_len]() mutable { return (t += seq_len) < tokens ? t : -1; });
      }
    }
  });
}

}  // namespace llmtrain::ops::cpu
