#include "llmtrain/data/dataset.hpp"

#include <algorithm>

#include "data/digest.hpp"
#include "llmtrain/core/error.hpp"

namespace llmtrain::data {

Dataset::Dataset(std::shared_ptr<const std::vector<TokenFile>> files, index_t seq_len,
                 index_t vocabulary, std::int32_t document_end)
    : files_(std::move(files)),
      seq_len_(seq_len),
      vocabulary_(vocabulary),
      document_end_(document_end) {
  require(seq_len > 0, "seq_len ", seq_len);
  for (const TokenFile& file : *files_) {
    file_begins_.push_back(samples_);
    samples_ += (file.tokens() - 1) / seq_len;
  }
}

Dataset Dataset::part(index_t first, index_t samples) const {
  require(first >= 0 && samples >= 0 && first + samples <= samples_, "samples ", first,
          " + ", samples, " of ", samples_);
  Dataset result = *this;
  result.first_ += first;
  result.samples_ = samples;
  return result;
}

void Dataset::read(std::span<std::int32_t> tokens, index_t index) const {
  require(index >= 0 && index < samples_, "sample ", index, " of ", samples_);
  require(static_cast<index_t>(tokens.size()) == seq_len_ + 1, "a sample has ",
          seq_len_ + 1, " tokens, not ", tokens.size());
  const index_t sample = first_ + index;
  const auto file =
      std::ranges::upper_bound(file_begins_, sample) - file_begins_.begin() - 1;
  (*files_)[file].read(tokens, (sample - file_begins_[file]) * seq_len_, vocabulary_);
}

std::string Dataset::fingerprint() const {
  std::string content = cat(seq_len_, ' ', first_, ' ', samples_);
  if (files_) {
    for (const TokenFile& file : *files_) content += ' ' + file.fingerprint();
  }
  return xxh128_hex(content);
}

}  // namespace llmtrain::data
