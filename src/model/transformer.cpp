#include "llmtrain/model/transformer.hpp"

#include <cmath>
#include <cstdio>

#include "llmtrain/ops/rope.hpp"

namespace llmtrain {

namespace {

constexpr int kEmbeddingUnit = 0;

Initializer matrix_initializer(const ModelConfig& config, double factor) {
  switch (config.init) {
    case WeightInit::normal:
      return {Initializer::Kind::normal, static_cast<float>(config.init_std * factor)};
    case WeightInit::kaiming_uniform:
      return {Initializer::Kind::kaiming_uniform, 1.0f};
    case WeightInit::zeros:
      break;
  }
  return {Initializer::Kind::zeros};
}

BlockSettings block_settings(const ModelConfig& config, TensorView rope_table,
                             std::uint64_t seed) {
  const bool llama = config.family == ModelFamily::llama;
  const auto bias = llama ? Linear::Bias::no : Linear::Bias::yes;
  const Initializer inner = matrix_initializer(config, 1.0);
  // Each block adds two residual branches: their variances add up to one (GPT-2).
  const Initializer output = matrix_initializer(
      config, 1.0 / std::sqrt(2.0 * static_cast<double>(config.layers)));
  return {.norm = llama ? ops::NormKind::rms : ops::NormKind::layer,
          .norm_epsilon = static_cast<float>(config.norm_epsilon),
          .attention = {.width = config.width,
                        .heads = config.heads,
                        .kv_heads = config.kv_heads,
                        .bias = bias,
                        .initializer = inner,
                        .output_initializer = output,
                        .rope_table = rope_table,
                        .seed = seed},
          .mlp = {.width = config.width,
                  .mlp_width = config.mlp_width,
                  .activation = llama ? Activation::swiglu : Activation::gelu,
                  .bias = bias,
                  .initializer = inner,
                  .output_initializer = output}};
}

std::string block_name(index_t layer) {
  char name[32];
  std::snprintf(name, sizeof name, "blocks/%03lld", static_cast<long long>(layer));
  return name;
}

}  // namespace

Transformer::Transformer(Context& ctx, const ModelConfig& config, Dtype dtype,
                         std::uint64_t seed)
    : config_(config), dtype_(dtype), saved_(static_cast<std::size_t>(config.layers)) {
  const auto new_set = [&](const std::string& name) -> ParameterSet& {
    return *sets_.emplace_back(std::make_unique<ParameterSet>(name));
  };
  TensorView rope_table;
  if (config_.family == ModelFamily::llama) {
    rope_table_ = ctx.device.allocate(config_.context * config_.head_dim() * 4,
                                      MemoryUse::workspace);
    rope_table = rope_table_.floats().as({config_.context, config_.head_dim()});
    ops::rope_table(ctx, rope_table, config_.rope_theta);
  }
  const BlockSettings settings = block_settings(config_, rope_table, seed);
  embedding_ = std::make_unique<Embedding>(
      new_set("embedding"),
      EmbeddingSettings{
          .vocabulary = config_.vocabulary,
          .padded_vocabulary = config_.padded_vocabulary(),
          .width = config_.width,
          .positions = config_.family == ModelFamily::gpt2 ? config_.context : 0,
          .initializer = settings.mlp.initializer,
          .seed = seed});
  for (index_t layer = 0; layer < config_.layers; ++layer) {
    const std::string name = block_name(layer);
    blocks_.push_back(std::make_unique<Block>(new_set(name), name, settings));
  }
  head_ = std::make_unique<LossHead>(
      new_set("head"),
      LossHeadSettings{.norm = settings.norm,
                       .norm_epsilon = settings.norm_epsilon,
                       .width = config_.width,
                       .vocabulary = config_.vocabulary,
                       .padded_vocabulary = config_.padded_vocabulary(),
                       .initializer = settings.mlp.initializer},
      config_.tied ? embedding_->tokens() : Parameter{});
  for (auto& set : sets_) set->seal();
}

std::vector<std::unique_ptr<ParameterSet>> Transformer::take_parameter_sets() {
  return std::move(sets_);
}

std::vector<int> Transformer::head_units() const {
  std::vector<int> units{block_unit(blocks_.size())};
  if (config_.tied) units.push_back(kEmbeddingUnit);
  return units;
}

Pass Transformer::make_pass(Context& ctx, const ModelInput& input, float dropout) const {
  return {.ctx = ctx,
          .dtype = dtype_,
          .sequences = input.tokens.shape()[0],
          .seq_len = input.tokens.shape()[1],
          .mask = {.document_starts = input.document_starts},
          .dropout = {.probability = dropout,
                      .key = {},
                      .step = input.step,
                      .positions = input.positions}};
}

TensorView Transformer::forward(const Pass& pass, Units& units, TensorView tokens) {
  TensorView x;
  {
    const WeightsInUse use(units, kEmbeddingUnit);
    x = embedding_->forward(pass, tokens);
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const WeightsInUse use(units, block_unit(i));
    x = blocks_[i]->forward(pass, x, saved_[i]);
  }
  return x;
}

void Transformer::backward(const Pass& pass, Units& units, TensorView dx,
                           TensorView tokens) {
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const WeightsInUse use(units, block_unit(i));
    units.acquire_gradients(block_unit(i));
    blocks_[i]->backward(pass, dx, saved_[i]);
    units.finish_gradients(block_unit(i));
  }
  // A tied embedding's gradient has been local since the head: it is reduced once, here.
  units.acquire_gradients(kEmbeddingUnit);
  embedding_->backward(pass, dx, tokens);
  units.finish_gradients(kEmbeddingUnit);
}

double Transformer::forward_backward(Context& ctx, Units& units, const ModelInput& input,
                                     float scale) {
  const ArenaScope saved_scope(ctx.saved), scope(ctx.scratch);
  const Pass pass = make_pass(ctx, input, static_cast<float>(config_.dropout));
  const TensorView x = forward(pass, units, input.tokens);
  const TensorView dx = pass.scratch(config_.width);

  const std::vector<int> head = head_units();
  for (const int unit : head) {
    units.acquire_weights(unit);
    units.acquire_gradients(unit);
  }
  const double loss = head_->forward_backward(pass, dx, x, input.labels, scale);
  for (const int unit : head) units.release_weights(unit);
  units.finish_gradients(head.front());

  backward(pass, units, dx, input.tokens);
  return loss;
}

double Transformer::evaluate(Context& ctx, Units& units, const ModelInput& input) {
  const ArenaScope saved_scope(ctx.saved), scope(ctx.scratch);
  const Pass pass = make_pass(ctx, input, 0.0f);
  const TensorView x = forward(pass, units, input.tokens);
  const std::vector<int> head = head_units();
  for (const int unit : head) units.acquire_weights(unit);
  const double loss = head_->evaluate(pass, x, input.labels);
  for (const int unit : head) units.release_weights(unit);
  return loss;
}

void Transformer::last_logits(Context& ctx, Units& units, TensorView out,
                              TensorView tokens) {
  const ArenaScope saved_scope(ctx.saved), scope(ctx.scratch);
  const Pass pass = make_pass(ctx, {.tokens = tokens}, 0.0f);
  const TensorView x = forward(pass, units, tokens);
  const std::vector<int> head = head_units();
  for (const int unit : head) units.acquire_weights(unit);
  head_->last_logits(pass, out, x);
  for (const int unit : head) units.release_weights(unit);
}

}  // namespace llmtrain
