#include "llmtrain/model/transformer.hpp"

#include <cmath>
#include <cstdio>

#include "llmtrain/ops/rope.hpp"

namespace llmtrain {

namespace {

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
                         Communicator& tensor, const std::vector<ModelPart>& parts,
                         bool pipelined, std::uint64_t seed)
    : config_(config), dtype_(dtype), tensor_(tensor) {
  TensorView rope_table;
  if (config_.family == ModelFamily::llama) {
    rope_table_ = ctx.device.allocate(config_.context * config_.head_dim() * 4,
                                      MemoryUse::workspace);
    rope_table = rope_table_.floats().as({config_.context, config_.head_dim()});
    ops::rope_table(ctx, rope_table, config_.rope_theta);
  }
  const BlockSettings settings = block_settings(config_, rope_table, seed);
  for (const ModelPart& part : parts) add_part(part, pipelined, settings, seed);
  for (auto& set : sets_) set->seal();
}

ParameterSet& Transformer::new_set(const std::string& name) {
  return *sets_.emplace_back(
      std::make_unique<ParameterSet>(name, TensorRank{tensor_.rank(), tensor_.size()}));
}

void Transformer::add_part(const ModelPart& part, bool pipelined,
                           const BlockSettings& settings, std::uint64_t seed) {
  const EmbeddingSettings embedding{
      .vocabulary = config_.vocabulary,
      .padded_vocabulary = config_.padded_vocabulary(),
      .width = config_.width,
      .positions = config_.family == ModelFamily::gpt2 ? config_.context : 0,
      .tied_over_pipeline = config_.tied && pipelined,
      .initializer = settings.mlp.initializer,
      .seed = seed};
  if (part.embedding) {
    embedding_unit_ = static_cast<int>(sets_.size());
    embedding_ = std::make_unique<Embedding>(new_set("embedding"), embedding);
  }
  Part& added = parts_.emplace_back(Part{.of = part});
  for (index_t i = 0; i < part.blocks; ++i) {
    const std::string name = block_name(part.first_block + i);
    const int unit = static_cast<int>(sets_.size());
    added.blocks.push_back(
        {std::make_unique<Block>(new_set(name), name, settings), unit});
  }
  if (part.head) add_head(pipelined, embedding, settings);
}

void Transformer::add_head(bool pipelined, const EmbeddingSettings& embedding,
                           const BlockSettings& settings) {
  head_units_ = {static_cast<int>(sets_.size())};
  ParameterSet& set = new_set("head");
  Parameter tied;
  if (config_.tied && pipelined) {
    ParameterSpec copy = token_table(embedding);
    copy.pipeline_copy = true;
    tied = set.declare({copy});
  } else if (config_.tied) {
    tied = embedding_->tokens();
    head_units_.push_back(embedding_unit_);
  }
  head_ = std::make_unique<LossHead>(
      set,
      LossHeadSettings{.norm = settings.norm,
                       .norm_epsilon = settings.norm_epsilon,
                       .width = config_.width,
                       .vocabulary = config_.vocabulary,
                       .padded_vocabulary = config_.padded_vocabulary(),
                       .initializer = settings.mlp.initializer},
      tied);
}

std::vector<std::unique_ptr<ParameterSet>> Transformer::take_parameter_sets() {
  return std::move(sets_);
}

Pass Transformer::make_pass(Context& ctx, const ModelInput& input, Mode mode) const {
  const double dropout = mode == Mode::train ? config_.dropout : 0.0;
  return {.ctx = ctx,
          .tensor = tensor_,
          .dtype = dtype_,
          .sequences = input.tokens.shape()[0],
          .seq_len = input.tokens.shape()[1],
          .mask = {.document_starts = input.document_starts},
          .dropout = {.probability = static_cast<float>(dropout),
                      .key = {},
                      .step = input.step,
                      .positions = input.positions}};
}

void Transformer::forward(Context& ctx, Units& units, int part, const ModelInput& input,
                          TensorView x, Mode mode, MicroBatchState& state) {
  const ArenaScope scope(ctx.scratch);
  const Pass pass = make_pass(ctx, input, mode);
  const Part& here = parts_[static_cast<std::size_t>(part)];
  if (here.of.embedding) {
    const WeightsInUse use(units, embedding_unit_);
    x = embedding_->forward(pass, input.tokens);
  }
  state.blocks.resize(here.blocks.size());
  for (std::size_t i = 0; i < here.blocks.size(); ++i) {
    const WeightsInUse use(units, here.blocks[i].unit);
    x = here.blocks[i].block->forward(pass, x, state.blocks[i]);
  }
  state.output = x;
}

double Transformer::backward(Context& ctx, Units& units, int part,
                             const ModelInput& input, TensorView dx, float scale,
                             const MicroBatchState& state) {
  const ArenaScope scope(ctx.scratch);
  const Pass pass = make_pass(ctx, input, Mode::train);
  const Part& here = parts_[static_cast<std::size_t>(part)];
  double sum = 0;
  if (here.of.head) {
    for (const int unit : head_units_) {
      units.acquire_weights(unit);
      units.acquire_gradients(unit);
    }
    sum = head_->forward_backward(pass, dx, state.output, input.labels, scale);
    for (const int unit : head_units_) units.release_weights(unit);
    units.finish_gradients(head_units_.front());
  }
  for (std::size_t i = here.blocks.size(); i-- > 0;) {
    const auto& [block, unit] = here.blocks[i];
    const WeightsInUse use(units, unit);
    units.acquire_gradients(unit);
    block->backward(pass, dx, state.blocks[i]);
    units.finish_gradients(unit);
  }
  if (here.of.embedding) {
    // A tied embedding's gradient has been local since the head: it is reduced once, here.
    units.acquire_gradients(embedding_unit_);
    embedding_->backward(pass, dx, input.tokens);
    units.finish_gradients(embedding_unit_);
  }
  return sum;
}

double Transformer::loss(Context& ctx, Units& units, const ModelInput& input,
                         const MicroBatchState& state) {
  const ArenaScope scope(ctx.scratch);
  for (const int unit : head_units_) units.acquire_weights(unit);
  const double sum =
      head_->evaluate(make_pass(ctx, input, Mode::evaluate), state.output, input.labels);
  for (const int unit : head_units_) units.release_weights(unit);
  return sum;
}

void Transformer::last_logits(Context& ctx, Units& units, const ModelInput& input,
                              TensorView out, const MicroBatchState& state) {
  const ArenaScope scope(ctx.scratch);
  for (const int unit : head_units_) units.acquire_weights(unit);
  head_->last_logits(make_pass(ctx, input, Mode::evaluate), out, state.output);
  for (const int unit : head_units_) units.release_weights(unit);
}

}  // namespace llmtrain
