#include "llmtrain/io/inspect.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "io/index_file.hpp"
#include "io/manifest.hpp"
#include "io/shard_reader.hpp"
#include "io/step_folders.hpp"
#include "io/verify.hpp"
#include "llmtrain/core/error.hpp"

namespace llmtrain::io {

namespace {

// Elements of a piece that are NaN.
index_t count_nan(const PosixFile& file, index_t place, index_t count) {
  constexpr index_t kPart = kBufferBytes / index_t{sizeof(float)};
  std::vector<float> part(static_cast<std::size_t>(std::min(count, kPart)));
  index_t found = 0;
  for (index_t at = 0; at < count; at += kPart) {
    const index_t elements = std::min(kPart, count - at);
    file.read_at(place + at * index_t{sizeof(float)}, part.data(),
                 elements * index_t{sizeof(float)});
    found += std::count_if(part.begin(), part.begin() + elements,
                           [](float x) { return std::isnan(x); });
  }
  return found;
}

void look_at_elements(const std::string& path, const PieceTable& table, std::int64_t step,
                      Verification& result) {
  std::vector<const StoredPiece*> pieces;
  for (const StoredPiece& piece : table.pieces()) pieces.push_back(&piece);
  std::stable_sort(
      pieces.begin(), pieces.end(),
      [](const StoredPiece* a, const StoredPiece* b) { return a->shard < b->shard; });
  std::unique_ptr<ShardReader> shard;
  int open = -1;
  for (const StoredPiece* piece : pieces) {
    if (piece->shard != open) {
      open = piece->shard;
      shard.reset();
      shard =
          std::make_unique<ShardReader>(path, ShardIdentity{open, table.shards(), step});
    }
    const index_t count = piece->region.count();
    const index_t found = count_nan(shard->file(), shard->place_of(*piece), count);
    result.elements += count;
    result.not_a_number += found;
    if (found > 0) {
      result.faults.push_back(cat(shard->path(), ": ",
                                  dataset_path(piece->kind, piece->tensor), ": ", found,
                                  " of ", count, " elements are NaN"));
    }
  }
}

}  // namespace

std::vector<CheckpointEntry> list_checkpoints(const std::string& directory) {
  if (!exists(directory)) fail(Status::io, directory, ": does not exist");
  std::vector<CheckpointEntry> entries;
  const auto self = make_self_communicator();
  for (const std::int64_t step : list_steps(directory)) {
    CheckpointEntry entry;
    entry.step = step;
    entry.path = directory + "/" + step_name(step);
    entry.fault = find_fault(*self, entry.path, VerifyMode::sizes);
    const std::string unreadable = fault_in([&] {
      entry.bytes = Manifest::read(entry.path).bytes();
      const IndexReader index(entry.path);
      entry.loss = index.progress().last_loss;
      entry.time = index.provenance().time;
    });
    if (entry.fault.empty()) entry.fault = unreadable;
    entries.push_back(std::move(entry));
  }
  return entries;
}

CheckpointContents read_contents(const std::string& path) {
  CheckpointContents contents;
  const Manifest manifest = Manifest::read(path);
  contents.files = static_cast<index_t>(manifest.files.size());
  contents.bytes = manifest.bytes();
  const IndexReader index(path);
  contents.progress = index.progress();
  contents.provenance = index.provenance();
  const PieceTable table = index.table();
  for (const PieceTable::Tensor& tensor : table.tensors()) {
    const StoredPiece& piece = table.front(tensor);
    contents.tensors.push_back({piece.kind, piece.tensor, piece.region.global,
                                static_cast<index_t>(tensor.count)});
  }
  return contents;
}

Verification verify_checkpoint(const std::string& path) {
  Verification result;
  std::string fault = fault_in([&] {
    const Manifest manifest = Manifest::read(path);
    result.files = static_cast<index_t>(manifest.files.size());
    result.bytes = manifest.bytes();
    for (const FileRecord& record : manifest.files) {
      const std::string found =
          fault_in([&] { check_file(path, record, VerifyMode::full); });
      if (!found.empty()) result.faults.push_back(found);
    }
  });
  if (!fault.empty()) result.faults.push_back(fault);
  // HDF5 gets only files that are what was written.
  if (!result.faults.empty()) return result;
  fault = fault_in([&] {
    const IndexReader index(path);
    const PieceTable table = index.table();
    result.tensors = static_cast<index_t>(table.tensors().size());
    const std::string found = table.fault();
    if (!found.empty()) fail(Status::bad_data, path, ": ", found);
    look_at_elements(path, table, index.progress().step, result);
  });
  if (!fault.empty()) result.faults.push_back(fault);
  return result;
}

}  // namespace llmtrain::io
