// Writes the file with the pieces of one rank.
#pragma once

#include <string>
#include <vector>

#include "io/manifest.hpp"
#include "io/piece_table.hpp"

namespace llmtrain::io {

// Which file of which checkpoint a shard is; stored in it, so that one that strayed from
// another checkpoint is recognised.
struct ShardIdentity {
  int shard = 0, shards = 1;
  std::int64_t step = 0;
};

// Writes folder/shard-RRRRR-of-NNNNN.h5 with the pieces that hold elements, synced. Its
// bytes are a function of the arguments alone. Local; throws Error(io).
FileRecord write_shard(const std::string& folder, const ShardIdentity& identity,
                       const std::vector<Piece>& owned);

// Upper bound of what HDF5 adds to the elements of these pieces.
index_t shard_overhead_bytes(const std::vector<Piece>& owned);

}  // namespace llmtrain::io
