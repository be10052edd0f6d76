// Rotary position embedding (Su et al. 2021) in the rotate-half layout of Hugging Face:
// within a head, element i pairs with i + head_dim / 2.
#pragma once

#include "llmtrain/device/context.hpp"

namespace llmtrain::ops {

// table f32 [positions, head_dim]: cosines in the first half of each row, sines in the
// second; angle(p, i) = p * theta^(-2 i / head_dim), computed in double.
void rope_table(Context& ctx, TensorView table, double theta);

enum class RopeDirection { forward, backward };  // backward rotates by the negative angle

// Rotates in place the first `heads` heads of every row: x [tokens, columns] of any
// floating-point dtype with
// columns >= heads * head_dim (so q and k of a fused qkv row at once); token t has
// position t % seq_len + position_offset.
struct RopeShape {
  index_t heads, head_dim, seq_len;
  index_t position_offset = 0;
};
void rope(Context& ctx, TensorView x, TensorView table, const RopeShape& shape,
          RopeDirection direction);

}  // namespace llmtrain::ops
