// A decoder-only transformer of either family: embedding, blocks, loss head, each a unit.
#pragma once

#include <memory>
#include <vector>

#include "llmtrain/config/model_config.hpp"
#include "llmtrain/layers/block.hpp"
#include "llmtrain/layers/embedding.hpp"
#include "llmtrain/layers/loss_head.hpp"
#include "llmtrain/parallel/units.hpp"

namespace llmtrain {

// One micro-batch as the model reads it; borrowed.
struct ModelInput {
  TensorView tokens;           // i32 [sequences, seq_len]
  TensorView labels;           // the same shape; empty where only logits are wanted
  TensorView document_starts;  // the same shape, or empty
  std::span<const std::uint32_t> positions{};  // in the global batch, by sequence
  std::uint32_t step = 0;                      // of training, for dropout
};

class Transformer {
 public:
  // `config` is resolved; `dtype` is that of activations and of the weights as layers read
  // them; `seed` is dropout's. The RoPE table lives on ctx.device.
  Transformer(Context& ctx, const ModelConfig& config, Dtype dtype, std::uint64_t seed);

  // The rows of unit 0 (embedding), 1 .. layers (blocks), layers + 1 (head), to be given
  // to Units, which must then be passed to every call below.
  std::vector<std::unique_ptr<ParameterSet>> take_parameter_sets();

  // The sum over tokens of the cross-entropy; accumulates the gradient of scale times it
  // and reduces what the ZeRO stage reduces in a micro-batch. Collective over the units'
  // group.
  double forward_backward(Context& ctx, Units& units, const ModelInput& input,
                          float scale);
  // The sum over tokens of the cross-entropy, without dropout. Collective likewise.
  double evaluate(Context& ctx, Units& units, const ModelInput& input);
  // Logits that follow the last token of one sequence; out f32 [vocabulary]. Collective.
  void last_logits(Context& ctx, Units& units, TensorView out, TensorView tokens);

  const ModelConfig& config() const { return config_; }

 private:
  Pass make_pass(Context& ctx, const ModelInput& input, float dropout) const;
  TensorView forward(const Pass& pass, Units& units, TensorView tokens);
  void backward(const Pass& pass, Units& units, TensorView dx, TensorView tokens);
  // The units whose weights the head reads.
  std::vector<int> head_units() const;
  int block_unit(std::size_t block) const { return static_cast<int>(block) + 1; }

  ModelConfig config_;
  Dtype dtype_;
  Buffer rope_table_;
  std::vector<std::unique_ptr<ParameterSet>> sets_;
  std::unique_ptr<Embedding> embedding_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<LossHead> head_;
  std::vector<BlockSaved> saved_;  // of the micro-batch in flight
};

}  // namespace llmtrain
