// index.h5: progress, provenance, the table of pieces, and every whole tensor as a virtual
// dataset over the shards.
#pragma once

#include <memory>
#include <string>

#include "io/manifest.hpp"
#include "io/piece_table.hpp"

namespace llmtrain::io {

// Writes folder/index.h5, synced. Its bytes differ between runs with equal training only
// within /provenance. Throws Error(io).
FileRecord write_index(const std::string& folder, const PieceTable& table,
                       const Progress& progress, const Provenance& provenance);

// Reads folder/index.h5 after its digest agrees with MANIFEST. Throws Error(bad_data).
class IndexReader {
 public:
  explicit IndexReader(const std::string& folder);
  ~IndexReader();

  Progress progress() const;
  Provenance provenance() const;
  // Only well-formed; PieceTable::fault() judges what it says.
  PieceTable table() const;

 private:
  struct Open;
  std::unique_ptr<Open> open_;
};

std::string to_bytes(const Progress& progress);
Progress progress_from_bytes(const std::string& bytes);

}  // namespace llmtrain::io
