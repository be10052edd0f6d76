#include "io/shard_reader.hpp"

#include <algorithm>
#include <cstring>

#include "io/hdf5.hpp"

namespace llmtrain::io {

namespace {

using hdf5::checked;
using hdf5::Id;
using hdf5::Source;

constexpr index_t kElement = sizeof(float);
// Runs that lie closer than this in the file are read together.
constexpr index_t kMaxGapBytes = 16384;

PosixFile open_shard(const std::string& path) {
  try {
    return PosixFile::open_for_reading(path);
  } catch (const Error& error) {
    throw Error(Status::bad_data, error.what());
  }
}

// Collects overlaps that are near each other in the file and reads them in one go.
class Gatherer {
 public:
  Gatherer(const PosixFile& file, index_t place, float* to, std::vector<char>& buffer)
      : file_(file), place_(place), to_(to), buffer_(buffer) {}

  // `overlap.first` counts in the destination, `overlap.second` in the file.
  void add(const Overlap& overlap) {
    if (!batch_.empty()) {
      const Overlap& last = batch_.back();
      const index_t gap = overlap.second - (last.second + last.count);
      const index_t span = overlap.second + overlap.count - batch_.front().second;
      if (gap * kElement > kMaxGapBytes || span * kElement > kBufferBytes ||
          batch_.size() == kMaxBatch) {
        flush();
      }
    }
    batch_.push_back(overlap);
  }

  void flush() {
    if (batch_.size() == 1) {
      read(batch_[0].second, batch_[0].count, to_ + batch_[0].first);
    } else if (!batch_.empty()) {
      const index_t start = batch_.front().second;
      const index_t span = batch_.back().second + batch_.back().count - start;
      buffer_.resize(static_cast<std::size_t>(kBufferBytes));
      read(start, span, buffer_.data());
      for (const Overlap& part : batch_) {
        std::memcpy(to_ + part.first, buffer_.data() + (part.second - start) * kElement,
                    static_cast<std::size_t>(part.count * kElement));
      }
    }
    batch_.clear();
  }

 private:
  static constexpr std::size_t kMaxBatch = 65536;

  void read(index_t element, index_t count, void* to) const {
    file_.read_at(place_ + element * kElement, to, count * kElement);
  }

  const PosixFile& file_;
  index_t place_;
  float* to_;
  std::vector<char>& buffer_;
  std::vector<Overlap> batch_;
};

}  // namespace

struct ShardReader::Open {
  Source source;
  Id file;
  index_t bytes;
};

ShardReader::ShardReader(const std::string& folder, const ShardIdentity& identity)
    : file_(open_shard(folder + "/" + shard_name(identity.shard, identity.shards))) {
  hdf5::set_up();
  const Source source{file_.path(), Status::bad_data};
  const Id access = hdf5::property_list(H5P_FILE_ACCESS, source);
  open_.reset(new Open{
      source,
      Id(H5Fopen(file_.path().c_str(), H5F_ACC_RDONLY, access), H5Fclose, source, "/"),
      file_.size()});
  const auto expect = [&](const char* attribute, index_t value) {
    const index_t found = hdf5::read_attribute(open_->file, attribute, source);
    if (found != value) {
      fail(Status::bad_data, file_.path(), ": is of ", attribute, ' ', found, ", not ",
           value);
    }
  };
  expect("step", identity.step);
  expect("shard", identity.shard);
  expect("shards", identity.shards);
}

ShardReader::~ShardReader() = default;

index_t ShardReader::place_of(const StoredPiece& piece) const {
  const Source& source = open_->source;
  const std::string path = dataset_path(piece.kind, piece.tensor);
  hdf5::require_hard_links(open_->file, path, source);
  const Id dataset(H5Dopen2(open_->file, path.c_str(), H5P_DEFAULT), H5Dclose, source,
                   path);
  const Id properties(H5Dget_create_plist(dataset), H5Pclose, source, path);
  const Id space(H5Dget_space(dataset), H5Sclose, source, path);
  const Id type(H5Dget_type(dataset), H5Tclose, source, path);
  if (H5Pget_layout(properties) != H5D_CONTIGUOUS ||
      H5Pget_external_count(properties) != 0 || H5Pget_nfilters(properties) != 0) {
    fail(source.status, source.file, ": ", path, ": is not stored in one plain piece");
  }
  if (H5Tequal(type, H5T_IEEE_F32LE) <= 0 || H5Sget_simple_extent_ndims(space) != 1) {
    fail(source.status, source.file, ": ", path, ": is not one row of 32-bit floats");
  }
  const index_t count = H5Sget_simple_extent_npoints(space);
  const haddr_t offset = H5Dget_offset(dataset);
  const index_t elements = open_->bytes / kElement;
  if (count > elements || piece.position > count ||
      piece.region.count() > count - piece.position || offset == HADDR_UNDEF ||
      static_cast<index_t>(offset) > open_->bytes - count * kElement) {
    fail(source.status, source.file, ": ", path, ": holds ", count,
         " elements, too few for what index.h5 says");
  }
  return static_cast<index_t>(offset) + piece.position * kElement;
}

index_t ShardReader::read(const StoredPiece& piece, const Region& wanted, float* to,
                          std::vector<char>& buffer) const {
  Gatherer gatherer(file_, place_of(piece), to, buffer);
  Overlaps overlaps(wanted, piece.region);
  Overlap part{};
  index_t copied = 0;
  while (overlaps.next(part)) {
    gatherer.add(part);
    copied += part.count;
  }
  gatherer.flush();
  return copied;
}

}  // namespace llmtrain::io
