// Saving. Every phase ends with all ranks knowing whether any of them failed, so that they
// go on or give up together.
#include <ctime>

#include "io/bytes.hpp"
#include "io/index_file.hpp"
#include "io/manifest.hpp"
#include "io/piece_table.hpp"
#include "io/posix_file.hpp"
#include "io/shard_writer.hpp"
#include "io/step_folders.hpp"
#include "io/verify.hpp"
#include "llmtrain/core/timer.hpp"
#include "llmtrain/io/checkpoint.hpp"

namespace llmtrain::io {

namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

std::string to_bytes(const FileRecord& record) {
  ByteWriter out;
  out.put(record.name);
  out.put(record.bytes);
  out.put(record.digest);
  return out.take();
}

FileRecord record_from_bytes(const std::string& bytes) {
  ByteReader in(bytes);
  FileRecord record;
  record.name = in.get_text();
  record.bytes = in.get<index_t>();
  record.digest = in.get_text();
  return record;
}

}  // namespace

class CheckpointStore::Save {
 public:
  Save(CheckpointStore& store, const std::vector<Piece>& owned, const Progress& progress,
       const Provenance& provenance)
      : store_(store),
        world_(store.world_),
        owned_(owned),
        progress_(progress),
        provenance_(provenance),
        partial_(store.directory_ + "/" + partial_name(progress.step)),
        final_(store.path_of(progress.step)) {
    provenance_.time = utc_now();
  }

  // The bytes of the checkpoint. Throws on all ranks when one failed.
  index_t run() {
    if (already_saved()) return saved_bytes();
    store_.enter(SavePhase::agree);
    agree();
    store_.enter(SavePhase::write);
    write_shards();
    store_.enter(SavePhase::index);
    write_index();
    store_.enter(SavePhase::manifest);
    write_manifest();
    store_.enter(SavePhase::commit);
    commit();
    store_.enter(SavePhase::committed);
    return manifest_.bytes();
  }

  void clean_up() const {
    if (root())
      fault_in([&] { remove_folder(store_.directory_, partial_name(progress_.step)); });
    world_.barrier();
  }

 private:
  bool root() const { return world_.rank() == 0; }

  template <class Work>
  void together(Work work) const {
    const std::string fault = first_fault(world_, fault_in(work));
    if (!fault.empty()) throw Error(Status::io, fault);
  }

  bool already_saved() const {
    const bool there = world_.broadcast(root() && exists(final_) ? "1" : "", 0) == "1";
    if (!there || !find_fault(world_, final_, VerifyMode::full).empty()) return false;
    bool equal = false;
    fault_in([&] { equal = root() && IndexReader(final_).progress() == progress_; });
    return world_.broadcast(equal ? "1" : "", 0) == "1";
  }

  index_t saved_bytes() const {
    std::string bytes;
    together([&] {
      if (root()) bytes = std::to_string(Manifest::read(final_).bytes());
    });
    return std::stoll(world_.broadcast(bytes, 0));
  }

  // Everyone's pieces make whole tensors, there is room, and the folder is made.
  void agree() {
    const std::vector<StoredPiece> stored = stored_pieces(owned_, world_.rank());
    std::vector<StoredPiece> all;
    for (const std::string& bytes :
         world_.all_gather(PieceTable(world_.size(), stored).to_bytes())) {
      const PieceTable part = PieceTable::from_bytes(bytes);
      all.insert(all.end(), part.pieces().begin(), part.pieces().end());
    }
    table_ = PieceTable(world_.size(), std::move(all));
    const std::string fault = table_.fault();
    require(fault.empty(), "the pieces to save do not fit together: ", fault);

    double bytes = stored.empty() ? 0 : static_cast<double>(shard_overhead_bytes(owned_));
    for (const Piece& piece : owned_) bytes += static_cast<double>(piece.data.bytes());
    double sum = 0;
    for (const double part : world_.all_gather(std::span<const double>(&bytes, 1)))
      sum += part;
    together([&] {
      if (!root()) return;
      require_space(1.1 * sum);
      remove_folder(store_.directory_, partial_name(progress_.step));
      make_folder(partial_);
    });
  }

  void require_space(double bytes) const {
    const double free = free_bytes(store_.directory_);
    if (free < bytes) {
      fail(Status::io, store_.directory_, ": has room for ", static_cast<index_t>(free),
           " bytes, a checkpoint takes ", static_cast<index_t>(bytes));
    }
  }

  void write_shards() {
    FileRecord record;
    together([&] {
      const ShardIdentity identity{world_.rank(), world_.size(), progress_.step};
      if (!stored_pieces(owned_, world_.rank()).empty()) {
        record = write_shard(partial_, identity, owned_);
      }
    });
    for (const std::string& bytes : world_.all_gather(to_bytes(record))) {
      const FileRecord written = record_from_bytes(bytes);
      if (!written.name.empty()) manifest_.files.push_back(written);
    }
  }

  void write_index() {
    std::string index;
    together([&] {
      if (!root()) return;
      index = to_bytes(io::write_index(partial_, table_, progress_, provenance_));
    });
    const FileRecord record = record_from_bytes(world_.broadcast(index, 0));
    manifest_.files.insert(manifest_.files.begin(), record);
  }

  void write_manifest() const {
    together([&] {
      if (!root()) return;
      write_new_file(partial_ + "/" + kManifestName, manifest_.text());
      sync_folder(partial_);
    });
  }

  void commit() const {
    together([&] {
      if (!root()) return;
      put_in_place();
      sync_folder(store_.directory_);
      // What was replaced, under whichever name it has now.
      remove_folder(store_.directory_, partial_name(progress_.step));
      remove_folder(store_.directory_, trash_name(progress_.step));
    });
  }

  void put_in_place() const {
    if (!exists(final_)) return rename_path(partial_, final_);
    if (exchange_paths(partial_, final_)) return;
    // Between these two a kill would lose the step; earlier ones are untouched.
    rename_path(final_, store_.directory_ + "/" + trash_name(progress_.step));
    rename_path(partial_, final_);
  }

  CheckpointStore& store_;
  Communicator& world_;
  const std::vector<Piece>& owned_;
  const Progress& progress_;
  Provenance provenance_;
  std::string partial_, final_;
  PieceTable table_;
  Manifest manifest_;
};

SaveReport CheckpointStore::save(const std::vector<Piece>& owned,
                                 const Progress& progress, const Provenance& provenance) {
  const Timer timer;
  const FileSizeSignalIgnored ignored;
  SaveReport report;
  report.path = path_of(progress.step);
  Save attempt(*this, owned, progress, provenance);
  try {
    report.bytes = attempt.run();
    report.saved = true;
  } catch (const Error& error) {
    attempt.clean_up();
    if (error.status() != Status::io) throw;
    report.fault = error.what();
  }
  if (report.saved) {
    saved_steps_.insert(progress.step);
    announce_and_prune(progress.step);
  }
  report.seconds = timer.seconds();
  return report;
}

// The checkpoint counts already, so what fails here is only worth a warning.
void CheckpointStore::announce_and_prune(std::int64_t step) {
  if (world_.rank() == 0) {
    const std::string stale =
        fault_in([&] { replace_file(directory_, "latest", step_name(step) + "\n"); });
    if (!stale.empty()) log_.warn("the checkpoint is complete, but ", stale);
    enter(SavePhase::prune);
    const std::string left = fault_in([&] { prune(); });
    if (!left.empty()) log_.warn("old checkpoints were not removed: ", left);
  }
  world_.barrier();
  enter(SavePhase::done);
}

void CheckpointStore::prune() {
  std::vector<std::int64_t> complete;
  for (const std::int64_t step : list_steps(directory_)) {
    if (step > resumed_step_ && !saved_steps_.contains(step)) {
      log_.warn(path_of(step), ": is not of this run's history: left alone");
      continue;
    }
    const auto self = make_self_communicator();
    const std::string fault = find_fault(*self, path_of(step), VerifyMode::sizes);
    if (fault.empty()) {
      complete.push_back(step);
    } else {
      log_.warn(fault, ": not counted, left alone");
    }
  }
  for (const std::int64_t step :
       steps_to_remove(complete, config_.keep, config_.keep_every)) {
    remove_step(directory_, step);
  }
}

}  // namespace llmtrain::io
