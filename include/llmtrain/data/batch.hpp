// One micro-batch in host memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llmtrain/data/dataset.hpp"
#include "llmtrain/tensor/shape.hpp"

namespace llmtrain::data {

// Legend: B sequences of T tokens; matrices are row-major [B, T].
struct Batch {
  index_t sequences = 0;  // B
  index_t seq_len = 0;    // T
  std::vector<std::int32_t> tokens;
  // The token that follows; ops::kIgnoredLabel where it counts for nothing.
  std::vector<std::int32_t> labels;
  // With a document mask: token t attends to [document_starts[t], t] of its sequence,
  // else empty. An end-of-text token is the last of its document and has no label.
  std::vector<std::int32_t> document_starts;
  std::vector<std::uint32_t> positions;  // [B] in the global batch, for dropout
  index_t valid_tokens = 0;              // labels that are not ignored

  Shape shape() const { return {sequences, seq_len}; }
};

// The part of each global batch that is one data-parallel rank's: positions
// [rank * global_batch / ranks, (rank + 1) * global_batch / ranks), cut into
// micro-batches.
struct Share {
  int rank = 0;
  int ranks = 1;
  index_t global_batch = 1;  // in samples; a multiple of ranks * micro_batch
  index_t micro_batch = 1;

  index_t samples() const { return global_batch / ranks; }
  index_t first_position() const { return rank * samples(); }
  index_t micro_batches() const { return samples() / micro_batch; }
};

// Sequence i is sample samples[i] of the dataset at position first_position + i of the
// global batch; for i from samples.size() up to `sequences` it is padding (token 0) whose
// labels are all ignored. Throws as Dataset::read.
Batch read_batch(const Dataset& dataset, std::span<const index_t> samples,
                 index_t sequences, index_t first_position);

// Validation reads all samples once, in their order, in rounds of ranks * micro_batch;
// the last round is padded, so that every rank has equally many micro-batches.
// global_batch plays no part.
index_t validation_rounds(const Dataset& dataset, const Share& share);

// This rank's micro-batch of `round`; positions count within the round.
Batch read_validation_batch(const Dataset& dataset, const Share& share, index_t round);

}  // namespace llmtrain::data
