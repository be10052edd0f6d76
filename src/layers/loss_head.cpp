#include "llmtrain/layers/loss_head.hpp"

#include <algorithm>

#include "llmtrain/ops/elementwise.hpp"
#include "llmtrain/ops/matmul.hpp"
#include "llmtrain/ops/reduce.hpp"
#include "llmtrain/ops/split_cross_entropy.hpp"

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
index_t LossHead::chunk_tokens(const Pass& pass) const {
  constexpr index_t kLogits = index_t{1} << 22;
  return std::min(pass.tokens(), std::max<index_t>(64, kLogits / columns() / 64 * 64));
}

void LossHead::chunk_losses(const Pass& pass, TensorView losses, TensorView logits,
                            TensorView labels, const Gradient* gradient) const {
  Context& ctx = pass.ctx;
  if (pass.tensor.size() == 1) {
    if (gradient == nullptr) {
      return ops::cross_entropy(ctx, losses, logits, labels, settings_.vocabulary);
    }
    return ops::cross_entropy_with_gradient(ctx, losses, logits, labels,
                                            settings_.vocabulary, gradient->scale);
  }
  const ops::VocabularyPart part{pass.tensor.rank() * columns(), settings_.vocabulary};
  const ArenaScope scope(ctx.scratch);
  const index_t tokens = logits.shape()[0];
  const TensorView own = ctx.scratch.allocate({tokens, 3});
  const TensorView all = ctx.scratch.allocate({pass.tensor.size(), tokens, 3});
  const TensorView lse = ctx.scratch.allocate({tokens});
  ops::vocabulary_statistics(ctx, own, logits, labels, part);
  pass.tensor.all_gather(all.flat(), own.flat());
  ops::combine_statistics(ctx, losses, lse, all, labels);
  if (gradient == nullptr) return;
  ops::vocabulary_gradient(ctx, logits, labels, lse, part, gradient->scale);
}

double LossHead::sum_of_losses(const Pass& pass, TensorView x, TensorView labels,
                               const Gradient* gradient) const {
  Context& ctx = pass.ctx;
  const ArenaScope saved_scope(ctx.saved), scope(ctx.scratch);
  NormSaved saved;
  const TensorView normed = norm_.forward(pass, {.x = x}, saved);
  const TensorView dnormed = gradient ? pass.scratch(settings_.width) : TensorView{};
  const TensorView losses = ctx.scratch.allocate({pass.tokens()});
  const index_t chunk = chunk_tokens(pass);
  const TensorView logits = ctx.scratch.allocate({chunk, columns()}, pass.dtype);
  for (index_t begin = 0; begin < pass.tokens(); begin += chunk) {
    const index_t n = std::min(chunk, pass.tokens() - begin);
    const TensorView y = logits.rows(0, n), rows = normed.rows(begin, n);
    ops::matmul(ctx, y, rows, weight_.weight(), {.b = ops::Transpose::yes});
    chunk_losses(pass, losses.flat(begin, n), y, labels.flat(begin, n), gradient);
    if (gradient == nullptr) continue;
    ops::linear_backward(ctx,
                         {.dx = dnormed.rows(begin, n), .dweight = weight_.gradient()}, y,
                         rows, weight_.weight());
  }
  if (gradient != nullptr) {
    pass.tensor.all_reduce(dnormed.flat());
    ops::fill(ctx, gradient->dx, 0.0f);
    norm_.backward(pass, gradient->dx, dnormed, saved);
  }
  return ops::sum(ctx, losses);
}

double LossHead::forward_backward(const Pass& pass, TensorView dx, TensorView x,
                                  TensorView labels, float scale) const {
  const Gradient gradient{dx, scale};
  return sum_of_losses(pass, x, labels, &gradient);
}

double LossHead::evaluate(const Pass& pass, TensorView x, TensorView labels) const {
  return sum_of_losses(pass, x, labels, nullptr);
}

void LossHead::last_logits(const Pass& pass, TensorView out, TensorView x) const {
  Context& ctx = pass.ctx;
  const ArenaScope saved_scope(ctx.saved), scope(ctx.scratch);
  NormSaved saved;
  const TensorView normed = norm_.forward(pass, {.x = x}, saved);
  const TensorView own = ctx.scratch.allocate({1, columns()}, pass.dtype);
  const TensorView all =
      ctx.scratch.allocate({pass.tensor.size() * columns()}, pass.dtype);
  ops::matmul(ctx, own, normed.rows(pass.tokens() - 1, 1), weight_.weight(),
              {.b = ops::Transpose::yes});
  pass.tensor.all_gather(all, own.flat());
  ops::copy(ctx, out, all.flat(0, settings_.vocabulary));
}

}  // namespace llmtrain
