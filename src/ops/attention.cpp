// Attention: checks and dispatch.
#include "llmtrain/ops/attention.hpp"

#include "ops/checks.hpp"
#include "ops/cpu_kernels.hpp"

namespace llmtrain::ops {
namespace {

constexpr index_t kLargestHeadDim = 256;

// What both directions share.
void check(const char* op, TensorView qkv, TensorView out, TensorView lse,
           const AttentionShape& shape, const AttentionMask& mask,
           const Dropout& dropout) {
  require(shape.sequences >= 0 && shape.seq_len > 0, op, ": shape has ", shape.sequences,
          " sequences of ", shape.seq_len, " tokens");
  require(shape.kv_heads > 0 && shape.heads > 0 && shape.heads % shape.kv_heads == 0, op,
          ": shape.heads = ", shape.heads,
          " is not a multiple of shape.kv_heads = ", shape.kv_heads);
  require(shape.head_dim > 0 && shape.head_dim <= kLargestHeadDim, op,
          ": shape.head_dim is ", shape.head_dim, ", not in [1, ", kLargestHeadDim, "]");
  const index_t tokens = shape.sequences * shape.seq_len;
  check_floating(op, "qkv", qkv, Shape{tokens, shape.columns()});
  check_tensor(op, "out", out, Shape{tokens, shape.heads * shape.head_dim}, qkv.dtype());
  check_tensor(op, "lse", lse, Shape{shape.sequences * shape.heads, shape.seq_len},
               Dtype::f32);
  if (!is_empty(mask.document_starts)) {
    check_tensor(op, "document_starts", mask.document_starts,
                 Shape{shape.sequences, shape.seq_len}, Dtype::i32);
  }
  check_dropout(op, dropout, tokens);
  require(dropout.probability == 0.0f ||
              static_cast<index_t>(dropout.positions.size()) == shape.sequences,
          op, ": dropout.positions has ", dropout.positions.size(),
          " sequences, shape has ", shape.sequences);
}

}  // namespace

void attention_forward(Context& ctx, TensorView out, TensorView lse, TensorView qkv,
                       const AttentionShape& shape, const AttentionMask& mask,
                       const Dropout& dropout) {
  check("attention_forward", qkv, out, lse, shape, mask, dropout);
  const ArenaScope scope(ctx.scratch);
  const TensorView scratch = ctx.scratch.allocate(cpu::attention_forward_scratch(shape));
  if (ctx.device.is_meta()) return;
  cpu::attention_forward(out, lse, qkv, shape, mask, dropout, scratch);
}

void attention_backward(Context& ctx, TensorView dqkv, TensorView dout, TensorView qkv,
                        TensorView out, TensorView lse, const AttentionShape& shape,
                        const AttentionMask& mask, const Dropout& dropout) {
  check("attention_backward", qkv, out, lse, shape, mask, dropout);
  check_tensor("attention_backward", "dqkv", dqkv, qkv.shape(), qkv.dtype());
  check_tensor("attention_backward", "dout", dout, out.shape(), qkv.dtype());
  const ArenaScope scope(ctx.scratch);
  const TensorView scratch = ctx.scratch.allocate(cpu::attention_backward_scratch(shape));
  if (ctx.device.is_meta()) return;
  cpu::attention_backward(dqkv, dout, qkv, out, lse, shape, mask, dropout, scratch);
}

}  // namespace llmtrain::ops
