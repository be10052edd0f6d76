#include <cstring>

#include "io/bytes.hpp"
#include "io/digest.hpp"
#include "io/hdf5.hpp"
#include "io/index_fields.hpp"
#include "io/index_file.hpp"
#include "io/manifest.hpp"
#include "io/posix_file.hpp"

namespace llmtrain::io {

namespace {

using hdf5::checked;
using hdf5::Id;
using hdf5::Source;

constexpr index_t kMaxIndexBytes = index_t{4} << 30;
constexpr hsize_t kMaxStringBytes = 16 << 20;

// The bytes of index.h5, which MANIFEST vouches for.
std::string verified_image(const std::string& folder) {
  const Manifest manifest = Manifest::read(folder);
  const FileRecord& record = *manifest.find(kIndexName);
  const std::string path = folder + "/" + kIndexName;
  std::string image;
  try {
    image = read_file(path, kMaxIndexBytes);
  } catch (const Error& error) {
    throw Error(Status::bad_data, error.what());
  }
  if (static_cast<index_t>(image.size()) != record.bytes ||
      digest_of(image) != record.digest) {
    fail(Status::bad_data, path, ": differs from what MANIFEST says");
  }
  return image;
}

Id open_image(const std::string& image, const Source& source) {
  const Id access = hdf5::property_list(H5P_FILE_ACCESS, source);
  checked(H5Pset_fapl_core(access, std::size_t{1} << 20, false), source, "properties");
  // The library copies the image and does not write to ours.
  checked(H5Pset_file_image(access, const_cast<char*>(image.data()), image.size()),
          source, "properties");
  // The driver refuses an image under the name of a file that exists.
  const std::string unused = source.file + " in memory";
  return {H5Fopen(unused.c_str(), H5F_ACC_RDONLY, access), H5Fclose, source, "/"};
}

// Opens a contiguous dataset that holds `count` elements of `element_bytes` bytes.
Id open_plain(hid_t file, const std::string& path, const Source& source) {
  hdf5::require_hard_links(file, path, source);
  Id dataset(H5Dopen2(file, path.c_str(), H5P_DEFAULT), H5Dclose, source, path);
  const Id properties(H5Dget_create_plist(dataset), H5Pclose, source, path);
  if (H5Pget_layout(properties) != H5D_CONTIGUOUS ||
      H5Pget_external_count(properties) != 0) {
    fail(source.status, source.file, ": ", path, ": is not stored in one piece");
  }
  return dataset;
}

template <class T>
hid_t memory_type();
template <>
hid_t memory_type<std::int64_t>() {
  return H5T_NATIVE_INT64;
}
template <>
hid_t memory_type<std::uint64_t>() {
  return H5T_NATIVE_UINT64;
}
template <>
hid_t memory_type<double>() {
  return H5T_NATIVE_DOUBLE;
}

template <class T>
void read_field(hid_t file, const std::string& path, T& value, const Source& source) {
  const Id dataset = open_plain(file, path, source);
  const Id space(H5Dget_space(dataset), H5Sclose, source, path);
  const Id type(H5Dget_type(dataset), H5Tclose, source, path);
  if (H5Sget_simple_extent_npoints(space) != 1 || H5Tequal(type, memory_type<T>()) <= 0) {
    fail(source.status, source.file, ": ", path, ": is not one number of 8 bytes");
  }
  checked(H5Dread(dataset, memory_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &value),
          source, path);
}

void read_field(hid_t file, const std::string& path, std::string& value,
                const Source& source) {
  value = hdf5::read_string(file, path, kMaxStringBytes, source);
}

Shape shape_of(const std::int64_t* extents, int dims) {
  return make_shape({extents, static_cast<std::size_t>(dims)});
}

StoredPiece piece_of(const PieceRow& row, const Source& source) {
  const auto refuse = [&](const char* what) {
    fail(source.status, source.file, ": /pieces: ", what);
  };
  if (std::memchr(row.tensor, 0, sizeof row.tensor) == nullptr ||
      std::memchr(row.kind, 0, sizeof row.kind) == nullptr) {
    refuse("has a name without an end");
  }
  if (row.dims < 1 || row.dims > Shape::kMaxRank) refuse("has a rank outside 1 to 4");
  for (int dim = 0; dim < row.dims; ++dim) {
    if (row.global_shape[dim] < 0 || row.box_offset[dim] < 0 || row.box_extent[dim] < 0) {
      refuse("has a negative extent");
    }
  }
  StoredPiece piece;
  piece.tensor = row.tensor;
  bool known = false;
  for (const TensorKind kind : kTensorKinds) {
    if (std::strcmp(row.kind, name(kind)) == 0) piece.kind = kind, known = true;
  }
  if (!known) refuse("has an unknown kind");
  piece.shard = row.shard;
  piece.region = {
      shape_of(row.global_shape, row.dims),
      {shape_of(row.box_offset, row.dims), shape_of(row.box_extent, row.dims)},
      row.begin,
      row.end};
  piece.position = row.position;
  return piece;
}

}  // namespace

struct IndexReader::Open {
  Source source;
  Id file;
  index_t bytes;
};

IndexReader::IndexReader(const std::string& folder) {
  hdf5::set_up();
  const Source source{folder + "/" + kIndexName, Status::bad_data};
  const std::string image = verified_image(folder);
  open_.reset(
      new Open{source, open_image(image, source), static_cast<index_t>(image.size())});
}

IndexReader::~IndexReader() = default;

Progress IndexReader::progress() const {
  Progress progress;
  for_each_progress_field(progress, [&](const char* field, auto& value, const char*) {
    read_field(open_->file, std::string("/progress/") + field, value, open_->source);
  });
  return progress;
}

Provenance IndexReader::provenance() const {
  Provenance provenance;
  for_each_provenance_field(provenance, [&](const char* field, auto& value, const char*) {
    read_field(open_->file, std::string("/provenance/") + field, value, open_->source);
  });
  return provenance;
}

PieceTable IndexReader::table() const {
  const Source& source = open_->source;
  const Id dataset = open_plain(open_->file, "/pieces", source);
  const Id space(H5Dget_space(dataset), H5Sclose, source, "/pieces");
  const Id stored(H5Dget_type(dataset), H5Tclose, source, "/pieces");
  const Id type = piece_row_type(source);
  const Id packed(H5Tcopy(type), H5Tclose, source, "/pieces");
  checked(H5Tpack(packed), source, "/pieces");
  const hssize_t count = H5Sget_simple_extent_npoints(space);
  if (H5Tequal(stored, packed) <= 0 || count < 0 ||
      count > open_->bytes / static_cast<hssize_t>(H5Tget_size(stored))) {
    fail(source.status, source.file, ": /pieces: is not a table of pieces");
  }
  std::vector<PieceRow> rows(static_cast<std::size_t>(count));
  if (count > 0) {
    checked(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data()), source,
            "/pieces");
  }
  const index_t shards = hdf5::read_attribute(dataset, "shards", source);
  if (shards < 1 || shards > 100000000) {
    fail(source.status, source.file, ": /pieces: counts ", shards, " shards");
  }
  std::vector<StoredPiece> pieces;
  for (const PieceRow& row : rows) pieces.push_back(piece_of(row, source));
  return {static_cast<int>(shards), std::move(pieces)};
}

std::string to_bytes(const Progress& progress) {
  ByteWriter out;
  for_each_progress_field(
      progress, [&](const char*, const auto& value, const char*) { out.put(value); });
  return out.take();
}

namespace {

template <class T>
void get(ByteReader& in, T& value) {
  value = in.get<T>();
}
void get(ByteReader& in, std::string& value) { value = in.get_text(); }

}  // namespace

Progress progress_from_bytes(const std::string& bytes) {
  ByteReader in(bytes);
  Progress progress;
  for_each_progress_field(progress,
                          [&](const char*, auto& value, const char*) { get(in, value); });
  return progress;
}

}  // namespace llmtrain::io
