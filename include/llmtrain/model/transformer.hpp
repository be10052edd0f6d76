// A decoder-only transformer of either family, or the parts of it that one rank of a pipeline
// has: embedding, blocks, loss head, each a unit.
#pragma once

#include <memory>
#include <vector>

#include "llmtrain/config/model_config.hpp"
#include "llmtrain/layers/block.hpp"
#include "llmtrain/layers/embedding.hpp"
#include "llmtrain/layers/loss_head.hpp"
#include "llmtrain/model/partition.hpp"
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

// What a micro-batch leaves in a part on its way forward, for its way back.
struct MicroBatchState {
  TensorView output;  // of the part's last block, [tokens, width]
  std::vector<BlockSaved> blocks;
};

class Transformer {
 public:
  // The parts of the model that this rank has, in order (model_parts; with `pipelined` there
  // are others elsewhere). `config` is resolved and divides over the ranks of `tensor`; `dtype`
  // is that of activations and of the weights as layers read them; `seed` is dropout's. The
  // RoPE table lives on ctx.device. `tensor` must outlive this; every call below is collective
  // over it and over the units' data-parallel group.
  Transformer(Context& ctx, const ModelConfig& config, Dtype dtype, Communicator& tensor,
              const std::vector<ModelPart>& parts, bool pipelined, std::uint64_t seed);

  // The rows of a unit for the embedding, each block and the head, to be given to Units, which
  // must then be passed to every call below.
  std::vector<std::unique_ptr<ParameterSet>> take_parameter_sets();

  enum class Mode { train, evaluate };  // with dropout or without
  // The part's forward pass, its loss head excepted: activations are allocated in ctx.saved and
  // must stay there until backward(). `x` [tokens, width]: what the part before has put out; not
  // read by the first part.
  void forward(Context& ctx, Units& units, int part, const ModelInput& input,
               TensorView x, Mode mode, MicroBatchState& state);
  // The part's backward pass. dx [tokens, width]: the gradient of the part's output on entry
  // (not read by the last part, which starts with the loss), of its input on return (undefined
  // in the first part). Returns the sum over tokens of the cross-entropy in the last part, else
  // 0; gradients are those of scale times it, accumulated, and reduced as the ZeRO stage says.
  double backward(Context& ctx, Units& units, int part, const ModelInput& input,
                  TensorView dx, float scale, const MicroBatchState& state);
  // Of the last part, after forward(): the sum over tokens of the cross-entropy; logits that
  // follow the last token of one sequence, out f32 [vocabulary].
  double loss(Context& ctx, Units& units, const ModelInput& input,
              const MicroBatchState& state);
  void last_logits(Context& ctx, Units& units, const ModelInput& input, TensorView out,
                   const MicroBatchState& state);

  const ModelConfig& config() const { return config_; }
  Dtype dtype() const { return dtype_; }
  const ModelPart& part(int part) const {
    return parts_[static_cast<std::size_t>(part)].of;
  }

 private:
  // A block with the unit that its rows are in.
  struct BlockUnit {
    std::unique_ptr<Block> block;
    int unit;
  };
  struct Part {
    ModelPart of;
    std::vector<BlockUnit> blocks;
  };
  void add_part(const ModelPart& part, bool pipelined, const BlockSettings& settings,
                std::uint64_t seed);
  void add_head(bool pipelined, const EmbeddingSettings& embedding,
                const BlockSettings& settings);
  ParameterSet& new_set(const std::string& name);
  Pass make_pass(Context& ctx, const ModelInput& input, Mode mode) const;

  ModelConfig config_;
  Dtype dtype_;
  Communicator& tensor_;
  Buffer rope_table_;
  std::vector<std::unique_ptr<ParameterSet>> sets_;
  std::unique_ptr<Embedding> embedding_;  // null where another rank has it; so is head_
  std::unique_ptr<LossHead> head_;
  int embedding_unit_ = -1;
  std::vector<int> head_units_;  // whose weights the head reads, its own first
  std::vector<Part> parts_;
};

}  // namespace llmtrain
