// Checkpoints: sharded HDF5 files that go on bit for bit in any layout
// (docs/checkpoints.md).
//
//   <dir>/step-0000001000/MANIFEST                 the commit record, written last
//   <dir>/step-0000001000/index.h5                 progress, piece table, whole tensors
//   (views) <dir>/step-0000001000/shard-00003-of-00008.h5  the pieces that rank 3 wrote
//   <dir>/latest                                   names the newest: a hint, never the
//   truth
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/config/config.hpp"
#include "llmtrain/core/log.hpp"
#include "llmtrain/io/state.hpp"

namespace llmtrain::io {

struct SaveReport {
  bool saved = false;
  std::string path;   // of the checkpoint
  std::string fault;  // why not, when not
  index_t bytes = 0;  // of all files
  double seconds = 0;
};

// Saves into, resumes from and prunes one checkpoint directory. All ranks construct it
// and make the same calls (collective over `world`, which must outlive it).
class CheckpointStore {
 public:
  // Removes what dead attempts left. Throws Error(io) when the directory cannot be made.
  CheckpointStore(Communicator& world, const std::string& directory,
                  const CheckpointConfig& config, Log& log);

  // Writes the pieces that each rank owns: over all ranks every element of every tensor
  // once. Never throws for what a disk can do: a failed save leaves no trace and is
  // reported. The commit point is the rename of the finished folder; retention follows
  // it.
  SaveReport save(const std::vector<Piece>& owned, const Progress& progress,
                  const Provenance& provenance);

  // The checkpoint that config.resume names: the newest that verifies (`auto`; damaged
  // ones are named with their fault and passed over), nothing for `none` or an empty
  // directory. Throws Error(bad_data) when checkpoints exist and none is good, or the
  // named one is not.
  std::optional<std::string> find();

  // Progress of the checkpoint at `path`.
  Progress read_progress(const std::string& path);

  // Fills the data of every wanted piece; each rank reads only what it wants, through at
  // most one buffer. Throws Error(bad_data) naming tensor and file when a tensor is
  // missing, has another shape, or an element is not covered exactly once.
  void load(const std::string& path, const std::vector<Piece>& wanted);

 private:
  Communicator& world_;
  std::string directory_;
  CheckpointConfig config_;
  Log& log_;
  std::string resumed_from_;
};

}  // namespace llmtrain::io
