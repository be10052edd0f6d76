#include "io/hdf5.hpp"

#include <cstdlib>
#include <utility>
#include <vector>

namespace llmtrain::io::hdf5 {

namespace {

// The innermost message of the library's error stack.
std::string reason() {
  std::string text;
  const auto take = [](unsigned, const H5E_error2_t* error, void* out) -> herr_t {
    auto& found = *static_cast<std::string*>(out);
    if (found.empty() && error->desc != nullptr) found = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take, &text);
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text.empty() ? "HDF5 gives no reason" : text;
}

Id string_type(std::size_t bytes, const Source& source) {
  Id type(H5Tcopy(H5T_C_S1), H5Tclose, source, "type");
  checked(H5Tset_size(type, bytes), source, "type");
  checked(H5Tset_strpad(type, H5T_STR_NULLTERM), source, "type");
  checked(H5Tset_cset(type, H5T_CSET_UTF8), source, "type");
  return type;
}

}  // namespace

void set_up() {
  static const bool done = [] {
    ::setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
    H5dont_atexit();
    H5open();
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    H5PLset_loading_state(0);
    return true;
  }();
  static_cast<void>(done);
}

template <class Result>
Result checked(Result result, const Source& source, const std::string& object) {
  if (result < 0) fail(source.status, source.file, ": ", object, ": ", reason());
  return result;
}
template int checked(int, const Source&, const std::string&);
template hid_t checked(hid_t, const Source&, const std::string&);

Id::Id(hid_t id, Close closer, const Source& source, const std::string& object)
    : id_(checked(id, source, object)), close_(closer) {}

Id::Id(Id&& other) noexcept
    : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}

Id::~Id() {
  if (id_ >= 0) close_(id_);
}

void Id::close(const Source& source, const std::string& object) {
  checked(close_(std::exchange(id_, H5I_INVALID_HID)), source, object);
}

Id property_list(hid_t of_class, const Source& source) {
  return {H5Pcreate(of_class), H5Pclose, source, "properties"};
}

Id untimed(hid_t of_class, const Source& source) {
  Id list = property_list(of_class, source);
  checked(H5Pset_obj_track_times(list, false), source, "properties");
  return list;
}

Id file_access(const Source& source) {
  Id list = property_list(H5P_FILE_ACCESS, source);
  // Superblock 3: checksummed metadata, and a mark in files whose writer died.
  checked(H5Pset_libver_bounds(list, H5F_LIBVER_V110, H5F_LIBVER_V110), source,
          "properties");
  return list;
}

void make_groups(hid_t file, const std::string& path, const Source& source) {
  const Id properties = untimed(H5P_GROUP_CREATE, source);
  for (std::size_t end = path.find('/', 1); end != std::string::npos;
       end = path.find('/', end + 1)) {
    const std::string group = path.substr(0, end);
    if (checked(H5Lexists(file, group.c_str(), H5P_DEFAULT), source, group) > 0) continue;
    Id(H5Gcreate2(file, group.c_str(), H5P_DEFAULT, properties, H5P_DEFAULT), H5Gclose,
       source, group);
  }
}

Id simple_space(std::span<const hsize_t> extents, const Source& source) {
  return {H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
          H5Sclose, source, "extents"};
}

void write_attribute(hid_t object, const char* name, std::span<const index_t> values,
                     std::span<const hsize_t> extents, const Source& source) {
  const Id space = extents.empty() ? Id(H5Screate(H5S_SCALAR), H5Sclose, source, name)
                                   : simple_space(extents, source);
  const Id attribute(
      H5Acreate2(object, name, H5T_STD_I64LE, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
      source, name);
  checked(H5Awrite(attribute, H5T_NATIVE_INT64, values.data()), source, name);
}

void write_attribute(hid_t object, const char* name, const std::string& text,
                     const Source& source) {
  const Id type = string_type(text.size() + 1, source);
  const Id space(H5Screate(H5S_SCALAR), H5Sclose, source, name);
  const Id attribute(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT),
                     H5Aclose, source, name);
  checked(H5Awrite(attribute, type, text.c_str()), source, name);
}

void write_string(hid_t file, const std::string& path, const std::string& text,
                  const std::string& description, const Source& source) {
  make_groups(file, path, source);
  const Id type = string_type(text.size() + 1, source);
  const Id space(H5Screate(H5S_SCALAR), H5Sclose, source, path);
  const Id properties = untimed(H5P_DATASET_CREATE, source);
  const Id dataset(
      H5Dcreate2(file, path.c_str(), type, space, H5P_DEFAULT, properties, H5P_DEFAULT),
      H5Dclose, source, path);
  checked(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.c_str()), source,
          path);
  write_attribute(dataset, "description", description, source);
}

void require_hard_links(hid_t file, const std::string& path, const Source& source) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    H5L_info_t info;
    if (H5Lget_info(file, part.c_str(), &info, H5P_DEFAULT) < 0) {
      fail(source.status, source.file, ": ", part, ": is missing");
    }
    if (info.type != H5L_TYPE_HARD) {
      fail(source.status, source.file, ": ", part,
           ": is a link to somewhere else, which is refused");
    }
    if (end == std::string::npos) return;
  }
}

index_t read_attribute(hid_t object, const char* name, const Source& source) {
  const Id attribute(H5Aopen(object, name, H5P_DEFAULT), H5Aclose, source, name);
  const Id space(H5Aget_space(attribute), H5Sclose, source, name);
  const Id type(H5Aget_type(attribute), H5Tclose, source, name);
  if (H5Sget_simple_extent_npoints(space) != 1 || H5Tequal(type, H5T_STD_I64LE) <= 0) {
    fail(source.status, source.file, ": ", name, ": is not one integer of 8 bytes");
  }
  index_t value = 0;
  checked(H5Aread(attribute, H5T_NATIVE_INT64, &value), source, name);
  return value;
}

std::string read_string(hid_t file, const std::string& path, hsize_t limit,
                        const Source& source) {
  require_hard_links(file, path, source);
  const Id dataset(H5Dopen2(file, path.c_str(), H5P_DEFAULT), H5Dclose, source, path);
  const Id stored(H5Dget_type(dataset), H5Tclose, source, path);
  const Id space(H5Dget_space(dataset), H5Sclose, source, path);
  const Id properties(H5Dget_create_plist(dataset), H5Pclose, source, path);
  const std::size_t bytes = H5Tget_size(stored);
  const bool plain = H5Tget_class(stored) == H5T_STRING &&
                     H5Tis_variable_str(stored) == 0 && bytes >= 1 && bytes <= limit &&
                     H5Sget_simple_extent_npoints(space) == 1 &&
                     H5Pget_layout(properties) == H5D_CONTIGUOUS &&
                     H5Pget_external_count(properties) == 0;
  if (!plain) {
    fail(source.status, source.file, ": ", path, ": is not one string of at most ", limit,
         " bytes");
  }
  std::vector<char> text(bytes + 1, '\0');
  checked(H5Dread(dataset, stored, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()), source,
          path);
  return text.data();
}

}  // namespace llmtrain::io::hdf5
