// Rotary position embedding: checks and dispatch.
#include "llmtrain/ops/rope.hpp"

#include "ops/checks.hpp"
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops {

void rope_table(Context& ctx, TensorView table, double theta) {
  check_matrix("rope_table", "table", table);
  check_dtype("rope_table", "table", table, Dtype::f32);
  require(table.shape()[1] % 2 == 0, "rope_table: table has an odd head_dim, ",
          table.shape()[1]);
  require(theta > 0.0, "rope_table: theta is ", theta);
  if (ctx.device.is_meta()) return;
  cpu::rope_table(table, theta);
}

void rope(Context& ctx, TensorView x, TensorView table, const RopeShape& shape,
          RopeDirection direction) {
  check_matrix("rope", "x", x);
  check_matrix("rope", "table", table);
  require(shape.head_dim > 0 && shape.head_dim % 2 == 0, "rope: shape.head_dim is ",
          shape.head_dim, ", not a positive even number");
  require(shape.seq_len > 0, "rope: shape.seq_len is ", shape.seq_len);
  require(shape.position_offset >= 0, "rope: shape.position_offset is ",
          shape.position_offset);
  require(shape.heads >= 0 && shape.heads * shape.head_dim <= x.shape()[1],
          "rope: x has ", x.shape()[1], " columns for ", shape.heads, " heads of ",
          shape.head_dim);
  check_tensor("rope", "table", table, Shape{table.shape()[0], shape.head_dim},
               Dtype::f32);
  require(shape.position_offset + shape.seq_len <= table.shape()[0], "rope: table has ",
          table.shape()[0], " positions for ", shape.position_offset, " + ",
          shape.seq_len);
  if (ctx.device.is_meta()) return;
  cpu::rope(x, table, shape, direction);
}

}  // namespace llmtrain::ops
