// Embeddings: checks and dispatch.
#include "llmtrain/ops/embedding.hpp"

#include "ops/checks.hpp"
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops {
namespace {

// Both directions have the same operands: activations y, tables, ids.
void check(const char* op, const char* const names[3], TensorView y, TensorView ids,
           TensorView tokens_table, TensorView positions_table, index_t seq_len) {
  check_matrix(op, names[0], y);
  const index_t tokens = y.shape()[0], width = y.shape()[1];
  require(seq_len > 0, op, ": seq_len is ", seq_len);
  check_tensor(op, "ids", ids, Shape{tokens}, Dtype::i32);
  check_matrix(op, names[1], tokens_table);
  check_floating(op, names[1], tokens_table, Shape{tokens_table.shape()[0], width});
  if (is_empty(positions_table)) return;
  check_matrix(op, names[2], positions_table);
  const index_t positions = positions_table.shape()[0];
  check_tensor(op, names[2], positions_table, Shape{positions, width},
               tokens_table.dtype());
  require(positions >= seq_len, op, ": ", names[2], " has ", positions,
          " rows for seq_len = ", seq_len);
}

}  // namespace

void embedding_forward(Context& ctx, TensorView y, TensorView ids,
                       TensorView tokens_table, TensorView positions_table,
                       index_t seq_len) {
  static constexpr const char* kNames[] = {"y", "tokens_table", "positions_table"};
  check("embedding_forward", kNames, y, ids, tokens_table, positions_table, seq_len);
  check_dtype("embedding_forward", "tokens_table", tokens_table, y.dtype());
  if (ctx.device.is_meta()) return;
  cpu::embedding_forward(y, ids, tokens_table, positions_table, seq_len);
}

void embedding_backward(Context& ctx, TensorView dtokens, TensorView dpositions,
                        TensorView dy, TensorView ids, index_t seq_len) {
  static constexpr const char* kNames[] = {"dy", "dtokens", "dpositions"};
  check("embedding_backward", kNames, dy, ids, dtokens, dpositions, seq_len);
  const ArenaScope scope(ctx.scratch);
  const TensorView order = ctx.scratch.allocate(ids.shape(), Dtype::i32);
  if (ctx.device.is_meta()) return;
  cpu::embedding_backward(dtokens, dpositions, dy, ids, seq_len, order);
}

}  // namespace llmtrain::ops
