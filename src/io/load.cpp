// Loading: each rank intersects what it wants with the table of pieces and reads those
// elements. That is all of resharding.
#include <algorithm>

#include "io/bytes.hpp"
#include "io/index_file.hpp"
#include "io/shard_reader.hpp"
#include "io/verify.hpp"
#include "llmtrain/io/checkpoint.hpp"

namespace llmtrain::io {

namespace {

// A stored piece that holds elements of a wanted one.
struct Source {
  const StoredPiece* stored;
  std::size_t wanted;
};

std::vector<Source> sources_of(const PieceTable& table, const std::vector<Piece>& wanted,
                               const std::string& path) {
  std::vector<Source> sources;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Piece& piece = wanted[i];
    const std::string name = dataset_path(piece.kind, piece.name);
    const Region region = region_of(piece);
    const std::string fault = fault_of(region);
    require(fault.empty(), "wanted piece of ", name, ": ", fault);
    const int tensor = table.find(piece.kind, piece.name);
    if (tensor < 0) fail(Status::bad_data, path, ": holds no tensor ", name);
    const auto& held = table.tensors()[static_cast<std::size_t>(tensor)];
    const Shape& global = table.front(held).region.global;
    if (!(global == piece.global)) {
      fail(Status::bad_data, path, ": ", name, " has the shape ", global.text(),
           ", this model's is ", piece.global.text());
    }
    for (const StoredPiece& stored : table.pieces(held)) {
      if (overlap(stored.region, region)) sources.push_back({&stored, i});
    }
  }
  // One shard is open at a time, and read from front to back.
  std::stable_sort(sources.begin(), sources.end(), [](const Source& a, const Source& b) {
    return a.stored->shard < b.stored->shard;
  });
  return sources;
}

void read_all(const std::string& path, const PieceTable& table, std::int64_t step,
              const std::vector<Piece>& wanted) {
  std::vector<index_t> copied(wanted.size());
  std::vector<char> buffer;
  std::unique_ptr<ShardReader> shard;
  int open = -1;
  for (const Source& source : sources_of(table, wanted, path)) {
    if (source.stored->shard != open) {
      open = source.stored->shard;
      shard.reset();
      shard =
          std::make_unique<ShardReader>(path, ShardIdentity{open, table.shards(), step});
    }
    const Piece& piece = wanted[source.wanted];
    copied[source.wanted] +=
        shard->read(*source.stored, region_of(piece), piece.data.data<float>(), buffer);
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (copied[i] != wanted[i].data.count()) {
      fail(Status::bad_data, path, ": ", dataset_path(wanted[i].kind, wanted[i].name),
           ": ", copied[i], " of ", wanted[i].data.count(), " elements were found");
    }
  }
}

// A tensor that no rank wants although others of its kind are wanted; empty: none.
std::string unwanted_tensor(Communicator& world, const PieceTable& table,
                            const std::vector<Piece>& wanted) {
  std::string mine(table.tensors().size(), '0');
  for (const Piece& piece : wanted) {
    const int tensor = table.find(piece.kind, piece.name);
    if (tensor >= 0) mine[static_cast<std::size_t>(tensor)] = '1';
  }
  std::string all = mine;
  for (const std::string& theirs : world.all_gather(mine)) {
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::max(all[i], theirs[i]);
  }
  for (const TensorKind kind : kTensorKinds) {
    bool any = false;
    std::string missing;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const StoredPiece& piece = table.front(table.tensors()[i]);
      if (piece.kind != kind) continue;
      any = any || all[i] == '1';
      if (all[i] == '0' && missing.empty()) missing = dataset_path(kind, piece.tensor);
    }
    if (any && !missing.empty()) return missing;
  }
  return "";
}

}  // namespace

void CheckpointStore::load(const std::string& path, const std::vector<Piece>& wanted) {
  require_verified(path);
  std::string bytes;
  std::int64_t step = 0;
  std::string fault = fault_in([&] {
    if (world_.rank() != 0) return;
    const IndexReader index(path);
    step = index.progress().step;
    const PieceTable table = index.table();
    const std::string found = table.fault();
    if (!found.empty()) fail(Status::bad_data, path, ": ", found);
    bytes = table.to_bytes();
  });
  fault = world_.broadcast(fault, 0);
  if (!fault.empty()) fail_everywhere(Status::bad_data, fault);
  const PieceTable table = PieceTable::from_bytes(world_.broadcast(bytes, 0));
  step = std::stoll(world_.broadcast(std::to_string(step), 0));

  fault = first_fault(world_, fault_in([&] { read_all(path, table, step, wanted); }));
  if (!fault.empty()) fail_everywhere(Status::bad_data, fault);
  const std::string unwanted = unwanted_tensor(world_, table, wanted);
  if (!unwanted.empty()) {
    fail_everywhere(Status::bad_data, path, ": holds ", unwanted,
                    ", which this model does not have");
  }
}

}  // namespace llmtrain::io
