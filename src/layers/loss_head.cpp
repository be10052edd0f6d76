#include "llmtrain/layers/loss_head.hpp"

#include <algorithm>

#include "llmtrain/ops/cross_entropy.hpp"
#include "llmtrain/ops/elementwise.hpp"
#include "llmtrain/ops/matmul.hpp"
#include "llmtrain/ops/reduce.hpp"

namespace llmtrain {

LossHead::LossHead(ParameterSet& set, const LossHeadSettings& settings,
                   const Parameter& tied)
    : settings_(settings),
      norm_(set, "final_norm", settings.norm, settings.width, settings.norm_epsilon),
      weight_(tied) {
  if (tied.exists()) return;
  weight_ = set.declare({{.name = "head/weight",
                          .shape = {settings.vocabulary, settings.width},
                          .initializer = settings.initializer,
                          .decayed = true,
                          .split = Split::vocabulary,
                          .padded_rows = settings.padded_vocabulary}});
}

// Four million logits: large enough for the products, small beside the activations.
index_t LossHead::chunk_tokens() const {
  constexpr index_t kLogits = index_t{1} << 22;
  return std::max<index_t>(64, kLogits / settings_.padded_vocabulary / 64 * 64);
}

double LossHead::forward_backward(const Pass& pass, TensorView dx, TensorView x,
                                  TensorView labels, float scale) const {
  Context& ctx = pass.ctx;
  const ArenaScope saved_scope(ctx.saved), scope(ctx.scratch);
  NormSaved saved;
  const TensorView normed = norm_.forward(pass, {.x = x}, saved);
  const TensorView dnormed = pass.scratch(settings_.width);
  const TensorView losses = ctx.scratch.allocate({pass.tokens()});
  const index_t chunk = std::min(chunk_tokens(), pass.tokens());
  const TensorView logits =
      ctx.scratch.allocate({chunk, settings_.padded_vocabulary}, pass.dtype);

  for (index_t begin = 0; begin < pass.tokens(); begin += chunk) {
    const index_t n = std::min(chunk, pass.tokens() - begin);
    const TensorView y = logits.rows(0, n), rows = normed.rows(begin, n);
    ops::matmul(ctx, y, rows, weight_.weight(), {.b = ops::Transpose::yes});
    ops::cross_entropy_with_gradient(ctx, losses.flat(begin, n), y, labels.flat(begin, n),
                                     settings_.vocabulary, scale);
    ops::linear_backward(ctx,
                         {.dx = dnormed.rows(begin, n), .dweight = weight_.gradient()}, y,
                         rows, weight_.weight());
  }
  ops::fill(ctx, dx, 0.0f);
  norm_.backward(pass, dx, dnormed, saved);
  return ops::sum(ctx, losses);
}

double LossHead::evaluate(const Pass& pass, TensorView x, TensorView labels) const {
  Context& ctx = pass.ctx;
  const ArenaScope saved_scope(ctx.saved), scope(ctx.scratch);
  NormSaved saved;
  const TensorView normed = norm_.forward(pass, {.x = x}, saved);
  const TensorView losses = ctx.scratch.allocate({pass.tokens()});
  const index_t chunk = std::min(chunk_tokens(), pass.tokens());
  const TensorView logits =
      ctx.scratch.allocate({chunk, settings_.padded_vocabulary}, pass.dtype);
  for (index_t begin = 0; begin < pass.tokens(); begin += chunk) {
    const index_t n = std::min(chunk, pass.tokens() - begin);
    ops::matmul(ctx, logits.rows(0, n), normed.rows(begin, n), weight_.weight(),
                {.b = ops::Transpose::yes});
    ops::cross_entropy(ctx, losses.flat(begin, n), logits.rows(0, n),
                       labels.flat(begin, n), settings_.vocabulary);
  }
  return ops::sum(ctx, losses);
}

void LossHead::last_logits(const Pass& pass, TensorView out, TensorView x) const {
  Context& ctx = pass.ctx;
  const ArenaScope saved_scope(ctx.saved), scope(ctx.scratch);
  NormSaved saved;
  const TensorView normed = norm_.forward(pass, {.x = x}, saved);
  const TensorView logits =
      ctx.scratch.allocate({1, settings_.padded_vocabulary}, pass.dtype);
  ops::matmul(ctx, logits, normed.rows(pass.tokens() - 1, 1), weight_.weight(),
              {.b = ops::Transpose::yes});
  ops::copy(ctx, out, logits.flat(0, settings_.vocabulary));
}

}  // namespace llmtrain
