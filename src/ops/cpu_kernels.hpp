// The CPU kernels behind the ops: arguments have been checked, memory is real. Meanings
// and shapes are those of the contracts in llmtrain/ops/.
#pragma once

#include "llmtrain/ops/activation.hpp"
#include "llmtrain/ops/adamw.hpp"
#include "llmtrain/ops/attention.hpp"
#include "llmtrain/ops/cross_entropy.hpp"
#include "llmtrain/ops/dropout.hpp"
#include "llmtrain/ops/elementwise.hpp"
#include "llmtrain/ops/embedding.hpp"
#include "llmtrain/ops/matmul.hpp"
#include "llmtrain/ops/norm.hpp"
#include "llmtrain/ops/reduce.hpp"
#include "llmtrain/ops/rope.hpp"

namespace llmtrain::ops::cpu {

void fill(TensorView x, float value);
void copy(TensorView y, TensorView x);
void add(TensorView y, TensorView x);

void dropout(TensorView y, TensorView x, const Dropout& dropout);
void add_dropout(TensorView y, TensorView residual, TensorView x, const Dropout& dropout);

// Scratch of matmul: [threads, floats of each] for 16-bit matrices, nothing for f32.
Shape matmul_scratch(TensorView out, TensorView a, MatmulOptions options);
void matmul(TensorView out, TensorView a, TensorView b, TensorView bias,
            MatmulOptions options, TensorView scratch);
// The part of matmul that a CPU with bf16 units takes: bf16 operands, out bf16 or f32. Elsewhere
// oneDNN emulates it, slowly.
bool has_bf16_units();
void matmul_bf16(TensorView out, TensorView a, TensorView b, TensorView bias,
                 MatmulOptions options);
// sums[c] += the sum over rows of x[:, c].
void add_column_sums(TensorView sums, TensorView x);

void gelu_forward(TensorView y, TensorView x);
void gelu_backward(TensorView dx, TensorView dy, TensorView x);
void swiglu_forward(TensorView y, TensorView gate_up);
void swiglu_backward(TensorView dgate_up, TensorView dy, TensorView gate_up);

void norm_forward(NormKind kind, float epsilon, TensorView y, TensorView statistics,
                  const NormInput& input, TensorView weight, TensorView bias);
// Scratch of norm_backward: partial sums of both parameter gradients for each part of the
// rows.
Shape norm_backward_scratch(index_t tokens, index_t width);
void norm_backward(NormKind kind, const NormGradients& gradients, TensorView dy,
                   TensorView r, TensorView statistics, TensorView weight,
                   TensorView scratch);

// Scratch of attention: [threads, floats of each].
Shape attention_forward_scratch(const AttentionShape& shape);
void attention_forward(TensorView out, TensorView lse, TensorView qkv,
                       const AttentionShape& shape, const AttentionMask& mask,
                       const Dropout& dropout, TensorView scratch);
Shape attention_backward_scratch(const AttentionShape& shape);
void attention_backward(TensorView dqkv, TensorView dout, TensorView qkv, TensorView out,
                        TensorView lse, const AttentionShape& shape,
                        const AttentionMask& mask, const Dropout& dropout,
                        TensorView scratch);

void cross_entropy(TensorView losses, TensorView logits, TensorView labels,
                   index_t vocabulary);
void cross_entropy_with_gradient(TensorView losses, TensorView logits, TensorView labels,
                                 index_t vocabulary, float scale);

void embedding_forward(TensorView y, TensorView ids, TensorView tokens_table,
                       TensorView positions_table, index_t seq_len);
// order: i32 [tokens] of scratch.
void embedding_backward(TensorView dtokens, TensorView dpositions, TensorView dy,
                        TensorView ids, index_t seq_len, TensorView order);

void rope_table(TensorView table, double theta);
void rope(TensorView x, TensorView table, const RopeShape& shape,
          RopeDirection direction);

void adamw(TensorView weights, TensorView rounded, TensorView exp_avg,
           TensorView exp_avg_sq, TensorView gradients, const AdamWStep& step);

// Scratch of the reductions: one double (two floats) for each block of elements.
Shape reduce_scratch(index_t count);
double sum_of_powers(TensorView x, double p, TensorView scratch);
double sum(TensorView x, TensorView scratch);

}  // namespace llmtrain::ops::cpu
