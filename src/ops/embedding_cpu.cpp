// Embeddings on the CPU.
#include <algorithm>
#include <cassert>

#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops::cpu {

void embedding_forward(TensorView y, TensorView ids, TensorView tokens_table,
                       TensorView positions_table, index_t seq_len) {
  const index_t tokens = y.shape()[0], width = y.shape()[1];
  const bool with_positions = positions_table.count() > 0;
#pragma omp parallel for schedule(static)
  for (index_t t = 0; t < tokens; ++t) {
    const index_t id = ids.data<std::int32_t>()[t];
    assert(id >= 0 && id < tokens_table.shape()[0]);
    const float* const token = tokens_table.data<float>() + id * width;
    float* const to = y.data<float>() + t * width;
    if (!with_positions) {
      std::copy_n(token, width, to);
      continue;
    }
    const float* const position = positions_table.data<float>() + (t % seq_len) * width;
#pragma omp simd
    for (index_t c = 0; c < width; ++c) to[c] = token[c] + position[c];
  }
}

// Several tokens may add to one row of the table, so the threads split the columns and
// each goes through the tokens in order.
void embedding_backward(TensorView dtokens, TensorView dpositions, TensorView dy,
                        TensorView ids, index_t seq_len) {
  constexpr index_t kColumns = 128;
  const index_t tokens = dy.shape()[0], width = dy.shape()[1];
  const bool with_positions = dpositions.count() > 0;
#pragma omp parallel for schedule(static)
  for (index_t begin = 0; begin < width; begin += kColumns) {
    const index_t count = std::min(kColumns, width - begin);
    for (index_t t = 0; t < tokens; ++t) {
      const index_t id = ids.data<std::int32_t>()[t];
      assert(id >= 0 && id < dtokens.shape()[0]);
      const float* const from = dy.data<float>() + t * width + begin;
      float* const token = dtokens.data<float>() + id * width + begin;
#pragma omp simd
      for (index_t c = 0; c < count; ++c) token[c] += from[c];
      if (!with_positions) continue;
      float* const position = dpositions.data<float>() + (t % seq_len) * width + begin;
#pragma omp simd
      for (index_t c = 0; c < count; ++c) position[c] += from[c];
    }
  }
}

}  // namespace llmtrain::ops::cpu
