// One open file of token ids in any of the formats.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

#include "llmtrain/config/data_config.hpp"
#include "llmtrain/core/types.hpp"

namespace llmtrain::data {

constexpr std::int32_t kTextEndOfText = 256;
constexpr index_t kTextVocabulary = 257;

// Read-only, by pread with 64-bit offsets; never mapped, so a file that is cut while it
// is read gives an error and not a signal. Owns the descriptor. read() may be called by
// several threads at once.
class TokenFile {
 public:
  // Throws Error that names the file, what was found, what is allowed and what to do:
  // bad_data for what is no token file of this format, io when the system refuses.
  TokenFile(const std::string& path, DataFormat format, int raw_token_bytes);
  ~TokenFile();
  TokenFile(TokenFile&& other) noexcept;
  TokenFile& operator=(TokenFile&&) = delete;

  // tokens[i] = the id of token begin + i, each in [0, vocabulary). Throws Error(io)
  // where the file has shrunk or cannot be read and Error(bad_data) for an id outside;
  // both name the file and the position.
  void read(std::span<std::int32_t> tokens, index_t begin, index_t vocabulary) const;

  const std::string& path() const { return path_; }
  index_t tokens() const { return tokens_; }
  index_t size_bytes() const { return size_bytes_; }
  int token_bytes() const { return token_bytes_; }
  // The id that separates documents by the format's own convention; -1 when it has none.
  std::int32_t end_of_text() const { return end_of_text_; }
  bool is_same_file(const TokenFile& other) const {
    return device_ == other.device_ && inode_ == other.inode_;
  }

  // XXH3-128 of base name, size, and the first, middle and last 4 KiB, as 32 hex digits.
  // Reads the file; throws as read() does.
  std::string fingerprint() const;

 private:
  TokenFile(const std::string& path, DataFormat format);
  void open_regular();
  void parse_header();
  void check_raw() const;
  void read_bytes(std::span<std::byte> bytes, index_t offset) const;
  void check_ids(std::span<const std::int32_t> tokens, index_t begin,
                 index_t vocabulary) const;

  std::string path_;
  DataFormat format_;
  int descriptor_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  index_t size_bytes_ = 0;
  index_t header_bytes_ = 0;
  int token_bytes_ = 1;
  index_t tokens_ = 0;
  std::int32_t end_of_text_ = -1;
};

}  // namespace llmtrain::data
