// Which layers a part of a pipeline has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llmtrain/config/model_config.hpp"

namespace llmtrain {

// Consecutive blocks; the first part has the embedding too, the last the loss head.
struct ModelPart {
  std::int64_t first_block = 0, blocks = 0;
  bool embedding = false, head = false;

  bool operator==(const ModelPart&) const = default;
};

// The model in `parts` parts of at least one block each (parts <= layers). `blocks` says how
// many blocks each has ("4,4,3"); empty: such that the part with the most arithmetic, the
// head's included, has as little as possible, and then the fewest blocks come last.
// Throws Error(usage) when `blocks` does not fit.
std::vector<ModelPart> model_parts(const ModelConfig& config, int parts,
                                   const std::string& blocks);

}  // namespace llmtrain
