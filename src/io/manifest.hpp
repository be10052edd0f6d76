// MANIFEST, the commit record of a checkpoint: size and digest of every file, and its own
// digest on the last line, so that a cut or edited one is found. `xxh128sum -c MANIFEST`
// checks the digests (it counts the lines that start with '#' as improperly formatted).
#pragma once

#include <string>
#include <vector>

#include "llmtrain/core/types.hpp"

namespace llmtrain::io {

struct FileRecord {
  std::string name;
  index_t bytes = 0;
  std::string digest;
};

struct Manifest {
  std::vector<FileRecord> files;

  index_t bytes() const;
  // nullptr when there is none of this name.
  const FileRecord* find(const std::string& name) const;

  std::string text() const;
  // Throws Error(bad_data) that starts with `path`.
  static Manifest parse(const std::string& text, const std::string& path);
  // Of the checkpoint in `folder`; throws Error(bad_data).
  static Manifest read(const std::string& folder);
};

inline constexpr const char* kManifestName = "MANIFEST";
inline constexpr const char* kIndexName = "index.h5";

}  // namespace llmtrain::io
