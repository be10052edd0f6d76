// Owners of HDF5 identifiers and the few calls that checkpoints need. Every failure throws
// Error with one line that names file, object and HDF5's reason.
#pragma once

#include <hdf5.h>

#include <span>
#include <string>

#include "llmtrain/core/error.hpp"
#include "llmtrain/core/types.hpp"

namespace llmtrain::io::hdf5 {

// The file that messages name and the status they carry: io while writing, bad_data while
// reading.
struct Source {
  std::string file;
  Status status;
};

// Call before any other: no handler at exit (it crashes after a full disk), no printing, no
// plugins, no file locks (the folder is renamed into place when it is complete).
void set_up();

// Throws Error for a negative result of a call on `object`.
template <class Result>
Result checked(Result result, const Source& source, const std::string& object);

class Id {
 public:
  using Close = herr_t (*)(hid_t);
  Id(hid_t id, Close closer, const Source& source, const std::string& object);
  Id(Id&& other) noexcept;
  Id& operator=(Id&&) = delete;
  ~Id();
  operator hid_t() const { return id_; }  // NOLINT: it stands for the identifier
  // Closes with the result checked, which for a file is when it is written.
  void close(const Source& source, const std::string& object);

 private:
  hid_t id_;
  Close close_;
};

Id property_list(hid_t of_class, const Source& source);
// Properties of objects without time stamps.
Id untimed(hid_t of_class, const Source& source);
Id file_access(const Source& source);

// Creates the groups of an absolute path, without its last part where that is an object.
void make_groups(hid_t file, const std::string& path, const Source& source);

Id simple_space(std::span<const hsize_t> extents, const Source& source);
void write_attribute(hid_t object, const char* name, std::span<const index_t> values,
                     std::span<const hsize_t> extents, const Source& source);
void write_attribute(hid_t object, const char* name, const std::string& text,
                     const Source& source);
void write_string(hid_t file, const std::string& path, const std::string& text,
                  const std::string& description, const Source& source);

// Throws unless the object at an absolute path is reached by hard links alone.
void require_hard_links(hid_t file, const std::string& path, const Source& source);

// An attribute that is one integer.
index_t read_attribute(hid_t object, const char* name, const Source& source);

// A fixed-length string dataset of at most `limit` bytes.
std::string read_string(hid_t file, const std::string& path, hsize_t limit,
                        const Source& source);

}  // namespace llmtrain::io::hdf5
