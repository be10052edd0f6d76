// Text from a byte-level model.
#pragma once

#include <string>

#include "llmtrain/train/engine.hpp"

namespace llmtrain {

struct GenerationOptions {
  std::string prompt;      // empty: starts a document
  index_t tokens = 0;      // how many bytes to add at most; end of text ends earlier
  double temperature = 1;  // 0: always the likeliest
  std::uint64_t seed = 1;
};

// The continuation alone. Each token is a function of (seed, position), so the text does not
// depend on the layout up to rounding of the logits. Collective: rank 0 draws.
std::string generate_text(Engine& engine, Communicator& world, const ModelConfig& model,
                          const GenerationOptions& options);

// `text` with every control character but newline and tab, and every byte that is not valid
// UTF-8, replaced: fit for a terminal.
std::string printable(const std::string& text);

}  // namespace llmtrain
