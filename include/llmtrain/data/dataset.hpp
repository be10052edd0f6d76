// Samples: what training and validation read.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "llmtrain/config/data_config.hpp"
#include "llmtrain/data/token_file.hpp"

namespace llmtrain::data {

// Samples of seq_len + 1 tokens at stride seq_len within each file of a sorted list:
// sample i of a file is its tokens [i * seq_len, i * seq_len + seq_len], so that every
// token but the first of a file is a label once. Samples never straddle files; a shorter
// tail is not read. Immutable: several threads may read.
class Dataset {
 public:
  Dataset() = default;  // no samples

  // `document_end`: the id that ends a document when documents are masked, else -1. The
  // files are shared, because a held-out part and the rest read the same open ones.
  Dataset(std::shared_ptr<const std::vector<TokenFile>> files, index_t seq_len,
          index_t vocabulary, std::int32_t document_end);

  // Samples [first, first + samples) of this set as a set of their own.
  Dataset part(index_t first, index_t samples) const;

  index_t samples() const { return samples_; }
  index_t seq_len() const { return seq_len_; }
  // Labels of one epoch.
  index_t tokens() const { return samples_ * seq_len_; }
  index_t vocabulary() const { return vocabulary_; }
  std::int32_t document_end() const { return document_end_; }

  // The seq_len + 1 tokens of sample `index` in [0, samples()). Throws as
  // TokenFile::read.
  void read(std::span<std::int32_t> tokens, index_t index) const;

  // Equal for equal samples under equal indices: it covers the files' base names, order,
  // sizes and (sampled) contents, the sequence length and which part of them this set is.
  // 32 hex digits, for the checkpoint. Reads a few KiB of every file: one rank is enough.
  std::string fingerprint() const;

 private:
  std::shared_ptr<const std::vector<TokenFile>> files_;
  std::vector<index_t> file_begins_;  // first sample of each file, then their total
  index_t first_ = 0;  // of the files' samples; this set is the next samples_
  index_t samples_ = 0;
  index_t seq_len_ = 0;
  index_t vocabulary_ = 0;
  std::int32_t document_end_ = -1;
};

struct Datasets {
  Dataset train;
  Dataset validation;  // no samples when the configuration asks for none
};

// The vocabulary that a format fixes; 0 where the model says it.
constexpr index_t format_vocabulary(DataFormat format) {
  return format == DataFormat::text ? kTextVocabulary : 0;
}

// Opens and checks everything the configuration names, for a model with `vocabulary` ids
// and sequences of `seq_len`. Throws one Error with a line for each fault of each file:
// usage when the configuration contradicts itself or the model, bad_data when a file is
// not what it should be, io when the system refuses to read.
Datasets open_datasets(const DataConfig& config, index_t seq_len, index_t vocabulary);

}  // namespace llmtrain::data
