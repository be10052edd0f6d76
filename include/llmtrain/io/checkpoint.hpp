// Checkpoints: sharded HDF5 files that go on bit for bit in any layout
// (docs/checkpoints.md).
//
//   <dir>/step-0000001000/MANIFEST                 the commit record, written last
//   <dir>/step-0000001000/index.h5                 progress, table of pieces, and views
//                                                  of the whole tensors
//   <dir>/step-0000001000/shard-00003-of-00008.h5  the pieces that rank 3 wrote
//   <dir>/latest                                   names the newest: a hint, never the
//                                                  truth
#pragma once

#include <functional>
#include <optional>
#include <set>
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

// What a save is about to do, in this order; the checkpoint counts from `committed` on.
enum class SavePhase { agree, write, index, manifest, commit, committed, prune, done };

// Saves into, resumes from and prunes one checkpoint directory, which only one run may use
// at a time. All ranks construct it and make the same calls (collective over `world`,
// which must outlive it, as must `log`).
class CheckpointStore {
 public:
  // Removes what dead attempts left. Throws Error(io) when the directory cannot be made.
  CheckpointStore(Communicator& world, const std::string& directory,
                  const CheckpointConfig& config, Log& log);

  // Writes the pieces that each rank owns: over all ranks every element of every tensor
  // once, else Error(internal). Ranks without pieces write no file. Never throws for what
  // a disk can do: a failed save leaves no trace and is reported. The commit point is the
  // rename of the finished folder; retention follows it.
  //
  // A checkpoint of the same step that verifies and has equal progress counts as saved and
  // stays as it is; another one (damaged, or of another run) is replaced.
  //
  // Retention counts only complete checkpoints of this run's history: saved by this store,
  // or not newer than the one resumed from. Others are named once and left alone. So the
  // one resumed from stays until `keep` newer ones are complete.
  SaveReport save(const std::vector<Piece>& owned, const Progress& progress,
                  const Provenance& provenance);

  // The checkpoint that config.resume names: the newest that verifies (`auto`; damaged
  // ones are named with their fault and passed over), nothing for `none` or an empty
  // directory. Throws Error(bad_data) when checkpoints exist and none is good, or the
  // named one is not.
  std::optional<std::string> find();

  // Progress of the checkpoint at `path`. Here and in load(), a checkpoint that find() has
  // not verified is verified first (config.verify). Throws Error(bad_data).
  Progress read_progress(const std::string& path);

  // Fills the data of every wanted piece; each rank reads only what it wants, through at
  // most one buffer of 8 MiB. Throws Error(bad_data), on all ranks, naming tensor and file
  // when a tensor is missing or has another shape, an element is not held exactly once, or
  // the checkpoint holds a tensor that no rank wants although some of its kind are wanted:
  // then it is another model's.
  void load(const std::string& path, const std::vector<Piece>& wanted);

  // Called on each rank when its save enters a phase: for watchdogs and tests.
  void on_phase(std::function<void(SavePhase)> callback) {
    callback_ = std::move(callback);
  }

 private:
  class Save;

  std::string path_of(std::int64_t step) const;
  std::optional<std::string> find_newest();
  std::string find_named();
  void resume_from(const std::string& path);
  void require_verified(const std::string& path);
  void warn_of_latest(const std::vector<std::int64_t>& steps);
  void announce_and_prune(std::int64_t step);
  void prune();
  void enter(SavePhase phase) const {
    if (callback_) callback_(phase);
  }

  Communicator& world_;
  std::string directory_;
  CheckpointConfig config_;
  Log& log_;
  std::function<void(SavePhase)> callback_;
  std::string verified_;                // path of the last checkpoint that verified
  std::int64_t resumed_step_ = -1;      // of this directory; -1: none
  std::set<std::int64_t> saved_steps_;  // by this store
};

}  // namespace llmtrain::io
