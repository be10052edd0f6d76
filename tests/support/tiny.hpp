// The small shapes of the invariant tests: width 32, 2 layers, 16 tokens, vocabulary 64,
// global batch 24 (which 1, 2, 3, 4 and 8 ranks divide), and random data for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "llmtrain/core/philox.hpp"
#include "llmtrain/ops/cross_entropy.hpp"
#include "llmtrain/train/engine.hpp"

namespace llmtrain::tiny {

constexpr index_t kGlobalBatch = 24, kContext = 16, kVocabulary = 61;

inline Config config(ModelFamily family, int zero, int ranks, index_t micro_batches = 1) {
  Config config;
  config.model.family = family;
  config.model.layers = 2;
  config.model.heads = 4;
  config.model.kv_heads = family == ModelFamily::llama ? 2 : 4;
  config.model.width = 32;
  config.model.context = kContext;
  config.model.vocabulary = kVocabulary;  // padded to 64 in memory
  config.model.tied = family == ModelFamily::gpt2;
  resolve(config.model);
  config.batch.global = kGlobalBatch;
  config.batch.micro = kGlobalBatch / ranks / micro_batches;
  config.optimizer.learning_rate = 1e-3;
  config.parallel.zero = zero;
  return config;
}

// Sequences [first, first + n) of the global batch of a step. A third of the labels of
// every other sequence is masked, so that ranks and micro-batches have different counts.
class Batch {
 public:
  Batch(index_t step, index_t first, index_t n) : n_(n), step_(step) {
    for (index_t b = 0; b < n; ++b) {
      const index_t position = first + b;
      positions_.push_back(static_cast<std::uint32_t>(position));
      std::int32_t token = draw(step, position, 0);
      for (index_t t = 0; t < kContext; ++t) {
        tokens_.push_back(token);
        // Predictable in part, so that there is something to learn.
        const std::int32_t random = draw(step, position, t + 1);
        token =
            random % 3 == 0 ? random : (token * 7 + 3) % static_cast<int>(kVocabulary);
        const bool masked = position % 2 == 0 && random % 3 == 1;
        labels_.push_back(masked ? ops::kIgnoredLabel : token);
        valid_ += !masked;
      }
    }
  }
  ModelInput input() {
    const Shape shape{n_, kContext};
    return {.tokens = {tokens_.data(), Dtype::i32, shape},
            .labels = {labels_.data(), Dtype::i32, shape},
            .positions = positions_,
            .step = static_cast<std::uint32_t>(step_)};
  }
  index_t valid_tokens() const { return valid_; }

 private:
  static std::int32_t draw(index_t step, index_t position, index_t t) {
    static const PhiloxKey key = philox_key(7, "test", "tokens");
    return static_cast<std::int32_t>(philox_at(key, static_cast<std::uint64_t>(t),
                                               static_cast<std::uint32_t>(position),
                                               static_cast<std::uint32_t>(step))[0] %
                                     static_cast<std::uint32_t>(kVocabulary));
  }

  index_t n_, step_, valid_ = 0;
  std::vector<std::int32_t> tokens_, labels_;
  std::vector<std::uint32_t> positions_;
};

// One step of rank `rank` of `ranks` on the global batch of `step`.
inline StepOutcome step(Engine& engine, const Config& config, index_t step, int rank,
                        int ranks) {
  std::vector<Batch> batches;
  std::vector<ModelInput> inputs;
  index_t valid = 0;
  const index_t share = kGlobalBatch / ranks;
  for (index_t first = 0; first < share; first += config.batch.micro) {
    batches.emplace_back(step, rank * share + first, config.batch.micro);
  }
  for (Batch& batch : batches) {
    inputs.push_back(batch.input());
    valid += batch.valid_tokens();
  }
  const double warmup = std::min(1.0, static_cast<double>(step + 1) / 10.0);
  return engine.train_step({.micro_batches = inputs,
                            .valid_tokens = valid,
                            .step = step,
                            .applied_step = step + 1,
                            .learning_rate = config.optimizer.learning_rate * warmup});
}

struct Curve {
  std::vector<double> losses, norms;
};

inline Curve train(Engine& engine, const Config& config, index_t steps, int rank,
                   int ranks) {
  Curve curve;
  for (index_t s = 0; s < steps; ++s) {
    const StepOutcome outcome = step(engine, config, s, rank, ranks);
    curve.losses.push_back(outcome.loss);
    curve.norms.push_back(outcome.gradient_norm);
  }
  return curve;
}

// The bytes of every piece of this rank, in order: its state as checkpoints hold it.
inline std::vector<float> state(Engine& engine) {
  std::vector<float> all;
  for (const io::Piece& piece : engine.pieces(Engine::Copies::all)) {
    const float* const values = piece.data.data<float>();
    all.insert(all.end(), values, values + piece.data.count());
  }
  return all;
}

}  // namespace llmtrain::tiny
