// Reads parts of the pieces that one shard holds.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/piece_table.hpp"
#include "io/posix_file.hpp"
#include "io/shard_writer.hpp"

namespace llmtrain::io {

// Opens the shard and the dataset of a piece, and reads elements from their place in the
// file. Nothing is read through HDF5, which only tells the place. Throws Error(bad_data)
// for what a shard of ours cannot be: another identity, a link to somewhere else, an
// external, filtered or chunked dataset, another type or size.
class ShardReader {
 public:
  ShardReader(const std::string& folder, const ShardIdentity& identity);
  ~ShardReader();

  const std::string& path() const { return file_.path(); }
  const PosixFile& file() const { return file_; }

  // Byte offset of the first element of a piece.
  index_t place_of(const StoredPiece& piece) const;

  // Copies what both hold into `to`, which has the elements of `wanted` in order. Gathers
  // short neighbouring runs through `buffer` (kBufferBytes); long ones are read straight
  // to where they belong. The number of elements copied.
  index_t read(const StoredPiece& piece, const Region& wanted, float* to,
               std::vector<char>& buffer) const;

 private:
  struct Open;
  PosixFile file_;
  std::unique_ptr<Open> open_;
};

}  // namespace llmtrain::io
