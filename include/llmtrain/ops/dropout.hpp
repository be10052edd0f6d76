// Dropout whose mask is a function of what is dropped, never of where it is computed.
#pragma once

#include <span>

#include "llmtrain/core/philox.hpp"
#include "llmtrain/device/context.hpp"

namespace llmtrain::ops {

// Which elements drop: the draw of element e of the sequence at position p of the global
// batch in step s is component e % 4 of philox_at(key, e / 4, p, s); it is dropped when
// uniform_float(draw) < probability, else scaled by 1 / (1 - probability). The mask is
// drawn again in the backward pass, never stored.
struct Dropout {
  float probability = 0.0f;  // in [0, 1); 0: off, and the rest is not read
  PhiloxKey key{};
  std::uint32_t step = 0;
  // Position in the global batch of each sequence of this micro-batch; the tokens of
  // sequence b are rows [b, b + 1) * seq_len of the tensors.
  std::span<const std::uint32_t> positions{};
};

// y = dropout(x);  x, y [sequences * seq_len, width] of one floating-point dtype with dropout.positions.size()
// sequences; element e = row within the sequence * width + column. y may be x. Off:
// copies (or nothing when y is x). The backward pass is the same function on gradients.
void dropout(Context& ctx, TensorView y, TensorView x, const Dropout& dropout);

// y = residual + dropout(x); same shapes. y may be residual or x.
void add_dropout(Context& ctx, TensorView y, TensorView residual, TensorView x,
                 const Dropout& dropout);

}  // namespace llmtrain::ops
