#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "io/digest.hpp"
#include "io/hdf5.hpp"
#include "io/index_fields.hpp"
#include "io/index_file.hpp"
#include "io/posix_file.hpp"

namespace llmtrain::io {

namespace {

using hdf5::checked;
using hdf5::Id;
using hdf5::Source;

template <class T>
hid_t file_type();
template <>
hid_t file_type<std::int64_t>() {
  return H5T_STD_I64LE;
}
template <>
hid_t file_type<std::uint64_t>() {
  return H5T_STD_U64LE;
}
template <>
hid_t file_type<double>() {
  return H5T_IEEE_F64LE;
}

// Everything is written on little-endian machines, where file and memory types agree.
template <class T>
void write_field(hid_t file, const std::string& path, T value,
                 const std::string& description, const Source& source) {
  hdf5::make_groups(file, path, source);
  const Id space(H5Screate(H5S_SCALAR), H5Sclose, source, path);
  const Id properties = hdf5::untimed(H5P_DATASET_CREATE, source);
  const Id dataset(H5Dcreate2(file, path.c_str(), file_type<T>(), space, H5P_DEFAULT,
                              properties, H5P_DEFAULT),
                   H5Dclose, source, path);
  checked(H5Dwrite(dataset, file_type<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &value),
          source, path);
  hdf5::write_attribute(dataset, "description", description, source);
}

void write_field(hid_t file, const std::string& path, const std::string& value,
                 const std::string& description, const Source& source) {
  hdf5::write_string(file, path, value, description, source);
}

PieceRow row_of(const StoredPiece& piece) {
  PieceRow row{};
  piece.tensor.copy(row.tensor, sizeof row.tensor - 1);
  std::strncpy(row.kind, name(piece.kind), sizeof row.kind - 1);
  row.shard = piece.shard;
  row.dims = piece.region.global.rank();
  for (int dim = 0; dim < row.dims; ++dim) {
    row.global_shape[dim] = piece.region.global[dim];
    row.box_offset[dim] = piece.region.box.offset[dim];
    row.box_extent[dim] = piece.region.box.extent[dim];
  }
  row.begin = piece.region.begin;
  row.end = piece.region.end;
  row.position = piece.position;
  return row;
}

void write_table(hid_t file, const PieceTable& table, const Source& source) {
  std::vector<PieceRow> rows;
  for (const StoredPiece& piece : table.pieces()) rows.push_back(row_of(piece));
  const Id type = piece_row_type(source);
  // In the file without the gaps of the struct.
  const Id packed(H5Tcopy(type), H5Tclose, source, "/pieces");
  checked(H5Tpack(packed), source, "/pieces");
  const hsize_t count = rows.size();
  const Id space = hdf5::simple_space({&count, 1}, source);
  const Id properties = hdf5::untimed(H5P_DATASET_CREATE, source);
  const Id dataset(
      H5Dcreate2(file, "/pieces", packed, space, H5P_DEFAULT, properties, H5P_DEFAULT),
      H5Dclose, source, "/pieces");
  if (count > 0) {
    checked(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data()), source,
            "/pieces");
  }
  const index_t shards = table.shards();
  hdf5::write_attribute(dataset, "shards", {&shards, 1}, {}, source);
  hdf5::write_attribute(dataset, "description",
                        "elements [begin, end) in row-major order of the box of a tensor "
                        "lie in the dataset "
                        "/kind/tensor of the shard, from element position on",
                        source);
}

// By shard and tensor: elements of the dataset there.
using Counts = std::map<std::pair<int, std::string>, index_t>;

Counts counts_of(const PieceTable& table) {
  Counts counts;
  for (const StoredPiece& piece : table.pieces()) {
    index_t& count = counts[{piece.shard, dataset_path(piece.kind, piece.tensor)}];
    count = std::max(count, piece.position + piece.region.count());
  }
  return counts;
}

void select(hid_t space, const Shape& offset, const Shape& extent, const Source& source,
            const std::string& path) {
  hsize_t start[Shape::kMaxRank], count[Shape::kMaxRank];
  for (int dim = 0; dim < offset.rank(); ++dim) {
    start[dim] = static_cast<hsize_t>(offset[dim]);
    count[dim] = static_cast<hsize_t>(extent[dim]);
  }
  checked(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, count, nullptr),
          source, path);
}

Id space_of(const Shape& shape, const Source& source) {
  std::vector<hsize_t> extents;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    extents.push_back(static_cast<hsize_t>(shape[dim]));
  }
  return hdf5::simple_space(extents, source);
}

void write_view(hid_t file, const PieceTable& table, const PieceTable::Tensor& tensor,
                const Counts& counts, const Source& source) {
  const std::string path =
      dataset_path(table.front(tensor).kind, table.front(tensor).tensor);
  const Id space = space_of(table.front(tensor).region.global, source);
  const Id properties = hdf5::untimed(H5P_DATASET_CREATE, source);
  const float absent =
      std::numeric_limits<float>::quiet_NaN();  // a shard that is missing
  checked(H5Pset_fill_value(properties, H5T_NATIVE_FLOAT, &absent), source, path);
  for (const StoredPiece& piece : table.pieces(tensor)) {
    const std::string shard = shard_name(piece.shard, table.shards());
    const Id held = space_of(Shape{counts.at({piece.shard, path})}, source);
    index_t at = piece.position;
    for (const Box& box : boxes_of(piece.region)) {
      select(held, Shape{at}, Shape{box.extent.count()}, source, path);
      select(space, box.offset, box.extent, source, path);
      checked(H5Pset_virtual(properties, space, shard.c_str(), path.c_str(), held),
              source, path);
      at += box.extent.count();
    }
  }
  checked(H5Sselect_all(space), source, path);
  hdf5::make_groups(file, path, source);
  const Id dataset(H5Dcreate2(file, path.c_str(), H5T_IEEE_F32LE, space, H5P_DEFAULT,
                              properties, H5P_DEFAULT),
                   H5Dclose, source, path);
}

}  // namespace

Id piece_row_type(const Source& source) {
  const auto text = [&](std::size_t bytes) {
    Id type(H5Tcopy(H5T_C_S1), H5Tclose, source, "/pieces");
    checked(H5Tset_size(type, bytes), source, "/pieces");
    return type;
  };
  const hsize_t dims = Shape::kMaxRank;
  const Id type(H5Tcreate(H5T_COMPOUND, sizeof(PieceRow)), H5Tclose, source, "/pieces");
  const Id extents(H5Tarray_create2(H5T_STD_I64LE, 1, &dims), H5Tclose, source,
                   "/pieces");
  const auto insert = [&](const char* member, std::size_t offset, hid_t member_type) {
    checked(H5Tinsert(type, member, offset, member_type), source, "/pieces");
  };
  insert("tensor", offsetof(PieceRow, tensor), text(sizeof(PieceRow::tensor)));
  insert("kind", offsetof(PieceRow, kind), text(sizeof(PieceRow::kind)));
  insert("shard", offsetof(PieceRow, shard), H5T_STD_I32LE);
  insert("dims", offsetof(PieceRow, dims), H5T_STD_I32LE);
  insert("global_shape", offsetof(PieceRow, global_shape), extents);
  insert("box_offset", offsetof(PieceRow, box_offset), extents);
  insert("box_extent", offsetof(PieceRow, box_extent), extents);
  insert("begin", offsetof(PieceRow, begin), H5T_STD_I64LE);
  insert("end", offsetof(PieceRow, end), H5T_STD_I64LE);
  insert("position", offsetof(PieceRow, position), H5T_STD_I64LE);
  return {H5Tcopy(type), H5Tclose, source, "/pieces"};
}

FileRecord write_index(const std::string& folder, const PieceTable& table,
                       const Progress& progress, const Provenance& provenance) {
  hdf5::set_up();
  const std::string path = folder + "/" + kIndexName;
  const Source source{path, Status::io};
  const Id access = hdf5::file_access(source);
  const Id creation = hdf5::untimed(H5P_FILE_CREATE, source);
  Id file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, creation, access), H5Fclose, source, "/");
  hdf5::write_attribute(file, "format", std::string("llmtrain-checkpoint 1"), source);
  const auto field_in = [&](const std::string& group) {
    return [&, group](const char* field, const auto& value, const char* description) {
      write_field(file, group + field, value, description, source);
    };
  };
  for_each_progress_field(progress, field_in("/progress/"));
  for_each_provenance_field(provenance, field_in("/provenance/"));
  write_table(file, table, source);
  const Counts counts = counts_of(table);
  for (const PieceTable::Tensor& tensor : table.tensors()) {
    write_view(file, table, tensor, counts, source);
  }
  file.close(source, "/");
  const PosixFile written = PosixFile::open_for_writing(path);
  written.sync();
  return {kIndexName, written.size(), digest_of_file(path)};
}

}  // namespace llmtrain::io
