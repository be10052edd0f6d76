#include "llmtrain/data/batch.hpp"

#include <algorithm>
#include <numeric>

#include "llmtrain/core/error.hpp"
#include "llmtrain/ops/cross_entropy.hpp"

namespace llmtrain::data {
namespace {

// Documents of one sequence: starts[t] of the document that token t is in, and no label
// where the next token is in another one.
void separate_documents(std::span<std::int32_t> starts, std::span<std::int32_t> labels,
                        std::span<const std::int32_t> tokens, std::int32_t end) {
  std::int32_t start = 0;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    starts[t] = start;
    if (tokens[t] != end) continue;
    labels[t] = ops::kIgnoredLabel;
    start = static_cast<std::int32_t>(t + 1);
  }
}

Batch empty_batch(const Dataset& dataset, index_t sequences, index_t first_position) {
  Batch batch;
  batch.sequences = sequences;
  batch.seq_len = dataset.seq_len();
  const auto count = static_cast<std::size_t>(sequences * dataset.seq_len());
  batch.tokens.assign(count, 0);
  batch.labels.assign(count, ops::kIgnoredLabel);
  if (dataset.document_end() >= 0) batch.document_starts.assign(count, 0);
  batch.positions.resize(sequences);
  std::iota(batch.positions.begin(), batch.positions.end(),
            static_cast<std::uint32_t>(first_position));
  return batch;
}

}  // namespace

Batch read_batch(const Dataset& dataset, std::span<const index_t> samples,
                 index_t sequences, index_t first_position) {
  require(static_cast<index_t>(samples.size()) <= sequences, "batch of ", sequences,
          " for ", samples.size(), " samples");
  Batch batch = empty_batch(dataset, sequences, first_position);
  const std::size_t seq_len = dataset.seq_len();
  std::vector<std::int32_t> sample(seq_len + 1);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    dataset.read(sample, samples[i]);
    const auto tokens = std::span(batch.tokens).subspan(i * seq_len, seq_len);
    const auto labels = std::span(batch.labels).subspan(i * seq_len, seq_len);
    std::copy(sample.begin(), sample.end() - 1, tokens.begin());
    std::copy(sample.begin() + 1, sample.end(), labels.begin());
    if (!batch.document_starts.empty()) {
      separate_documents(std::span(batch.document_starts).subspan(i * seq_len, seq_len),
                         labels, tokens, dataset.document_end());
    }
  }
  const auto ignored = std::ranges::count(batch.labels, ops::kIgnoredLabel);
  batch.valid_tokens = static_cast<index_t>(batch.labels.size()) - ignored;
  return batch;
}

index_t validation_rounds(const Dataset& dataset, const Share& share) {
  return divide_up(dataset.samples(), share.ranks * share.micro_batch);
}

Batch read_validation_batch(const Dataset& dataset, const Share& share, index_t round) {
  require(round >= 0 && round < validation_rounds(dataset, share), "validation round ",
          round);
  const index_t position = share.rank * share.micro_batch;
  const index_t first = round * share.ranks * share.micro_batch + position;
  const index_t count =
      std::clamp<index_t>(dataset.samples() - first, 0, share.micro_batch);
  std::vector<index_t> samples(count);
  std::iota(samples.begin(), samples.end(), first);
  return read_batch(dataset, samples, share.micro_batch, position);
}

}  // namespace llmtrain::data
