// HDF5 lays the file out: groups, attributes, and contiguous datasets whose space is
// allocated but not touched. The elements are then written with our own large writes at
// the offsets that it gives, while the digest of the whole file is computed in passing;
// the result is a plain HDF5 file. A full disk shows at the allocation.
#include "io/shard_writer.hpp"

#include <algorithm>
#include <map>

#include "io/digest.hpp"
#include "io/hdf5.hpp"
#include "io/posix_file.hpp"

namespace llmtrain::io {

namespace {

using hdf5::checked;
using hdf5::Id;
using hdf5::Source;

constexpr hsize_t kAlignFrom = 65536, kAlignment = 4096;  // bytes

// A dataset with the pieces that follow each other in it.
struct Dataset {
  TensorKind kind;
  std::string tensor;
  std::vector<const Piece*> pieces;
  index_t count = 0;
  index_t offset = 0;  // bytes from the start of the file
};

std::vector<Dataset> datasets_of(const std::vector<Piece>& owned) {
  std::map<std::pair<TensorKind, std::string>, Dataset> by_name;
  for (const Piece& piece : owned) {
    if (piece.data.count() == 0) continue;
    Dataset& dataset = by_name[{piece.kind, piece.name}];
    dataset.kind = piece.kind;
    dataset.tensor = piece.name;
    dataset.pieces.push_back(&piece);
    dataset.count += piece.data.count();
  }
  std::vector<Dataset> datasets;
  for (auto& entry : by_name) datasets.push_back(std::move(entry.second));
  return datasets;
}

void describe_pieces(hid_t object, const Dataset& dataset, const Source& source) {
  const Shape& global = dataset.pieces[0]->global;
  std::vector<index_t> shape, offset, extent, begin, end;
  for (int dim = 0; dim < global.rank(); ++dim) shape.push_back(global[dim]);
  for (const Piece* piece : dataset.pieces) {
    for (int dim = 0; dim < global.rank(); ++dim) {
      offset.push_back(piece->box.offset[dim]);
      extent.push_back(piece->box.extent[dim]);
    }
    begin.push_back(piece->begin);
    end.push_back(piece->begin + piece->data.count());
  }
  const hsize_t pieces = begin.size(), dims = shape.size();
  const hsize_t table[] = {pieces, dims};
  hdf5::write_attribute(object, "global_shape", shape, {&dims, 1}, source);
  hdf5::write_attribute(object, "box_offset", offset, table, source);
  hdf5::write_attribute(object, "box_extent", extent, table, source);
  hdf5::write_attribute(object, "begin", begin, {&pieces, 1}, source);
  hdf5::write_attribute(object, "end", end, {&pieces, 1}, source);
}

void create_dataset(hid_t file, Dataset& dataset, const Source& source) {
  const std::string path = dataset_path(dataset.kind, dataset.tensor);
  hdf5::make_groups(file, path, source);
  const Id properties = hdf5::untimed(H5P_DATASET_CREATE, source);
  checked(H5Pset_layout(properties, H5D_CONTIGUOUS), source, path);
  checked(H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY), source, path);
  checked(H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER), source, path);
  const auto count = static_cast<hsize_t>(dataset.count);
  const Id space = hdf5::simple_space({&count, 1}, source);
  Id object(H5Dcreate2(file, path.c_str(), H5T_IEEE_F32LE, space, H5P_DEFAULT, properties,
                       H5P_DEFAULT),
            H5Dclose, source, path);
  describe_pieces(object, dataset, source);
  const haddr_t offset = H5Dget_offset(object);
  if (offset == HADDR_UNDEF)
    fail(source.status, source.file, ": ", path, ": has no place");
  dataset.offset = static_cast<index_t>(offset);
  object.close(source, path);
}

void lay_out(const std::string& path, const ShardIdentity& identity,
             std::vector<Dataset>& datasets) {
  hdf5::set_up();
  const Source source{path, Status::io};
  const Id access = hdf5::file_access(source);
  checked(H5Pset_alignment(access, kAlignFrom, kAlignment), source, "properties");
  const Id creation = hdf5::untimed(H5P_FILE_CREATE, source);
  Id file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation, access), H5Fclose, source, "/");
  const index_t shard = identity.shard, shards = identity.shards, step = identity.step;
  hdf5::write_attribute(file, "format", std::string("llmtrain-shard 1"), source);
  hdf5::write_attribute(file, "shard", {&shard, 1}, {}, source);
  hdf5::write_attribute(file, "shards", {&shards, 1}, {}, source);
  hdf5::write_attribute(file, "step", {&step, 1}, {}, source);
  for (Dataset& dataset : datasets) create_dataset(file, dataset, source);
  file.close(source, "/");
}

// Goes through the file once from front to back: adds what HDF5 has written to the digest,
// writes the elements and adds them.
class Filler {
 public:
  explicit Filler(const PosixFile& file)
      : file_(file), buffer_(static_cast<std::size_t>(kBufferBytes)) {}

  void pass_to(index_t offset) {
    while (at_ < offset) {
      const index_t bytes = std::min(offset - at_, kBufferBytes);
      file_.read_at(at_, buffer_.data(), bytes);
      digest_.add(buffer_.data(), static_cast<std::size_t>(bytes));
      at_ += bytes;
    }
  }

  void write(const void* data, index_t bytes) {
    const auto* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const index_t part = std::min(bytes, kBufferBytes - at_ % kBufferBytes);
      file_.write_at(at_, from, part);
      digest_.add(from, static_cast<std::size_t>(part));
      from += part, at_ += part, bytes -= part;
    }
  }

  std::string digest() const { return digest_.hex(); }

 private:
  const PosixFile& file_;
  std::vector<char> buffer_;
  Digest digest_;
  index_t at_ = 0;
};

}  // namespace

FileRecord write_shard(const std::string& folder, const ShardIdentity& identity,
                       const std::vector<Piece>& owned) {
  FileRecord record;
  record.name = shard_name(identity.shard, identity.shards);
  const std::string path = folder + "/" + record.name;
  std::vector<Dataset> datasets = datasets_of(owned);
  lay_out(path, identity, datasets);
  std::sort(datasets.begin(), datasets.end(),
            [](const Dataset& a, const Dataset& b) { return a.offset < b.offset; });

  PosixFile file = PosixFile::open_for_writing(path);
  record.bytes = file.size();
  file.allocate(record.bytes);
  Filler filler(file);
  for (const Dataset& dataset : datasets) {
    filler.pass_to(dataset.offset);
    for (const Piece* piece : dataset.pieces) {
      filler.write(piece->data.data<float>(), piece->data.bytes());
    }
  }
  filler.pass_to(record.bytes);
  record.digest = filler.digest();
  file.sync();
  file.close();
  return record;
}

index_t shard_overhead_bytes(const std::vector<Piece>& owned) {
  const auto datasets = static_cast<index_t>(owned.size());
  return 65536 + datasets * static_cast<index_t>(kAlignment + 2048);
}

}  // namespace llmtrain::io
