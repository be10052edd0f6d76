// Files and folders with every return code checked. All functions are local; failures
// throw Error(io) that names the path and the system's reason.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/core/types.hpp"

namespace llmtrain::io {

// The most that reading and hashing hold at once.
inline constexpr index_t kBufferBytes = index_t{8} << 20;

class PosixFile {
 public:
  // Symbolic links are not followed.
  static PosixFile open_for_reading(const std::string& path);
  static PosixFile open_for_writing(const std::string& path);  // must exist
  static PosixFile create(const std::string& path);            // must not exist
  PosixFile(PosixFile&& other) noexcept;
  PosixFile& operator=(PosixFile&&) = delete;
  ~PosixFile();

  const std::string& path() const { return path_; }
  index_t size() const;
  void read_at(index_t offset, void* data, index_t bytes) const;
  void write_at(index_t offset, const void* data, index_t bytes) const;
  // Takes the blocks of [0, bytes) now, so that a full disk shows before anything is
  // written.
  void allocate(index_t bytes) const;
  void sync() const;
  void close();

 private:
  PosixFile(const std::string& path, int flags, const char* what);

  std::string path_;
  int descriptor_;
};

void sync_folder(const std::string& path);
// A new file with these bytes, synced.
void write_new_file(const std::string& path, std::string_view bytes);
// Replaces the text of folder/name atomically and syncs the folder.
void replace_file(const std::string& folder, const std::string& name,
                  std::string_view bytes);
// Throws Error(io) when the file is larger than `limit`, too.
std::string read_file(const std::string& path, index_t limit);

void make_folder(const std::string& path);  // must not exist
bool exists(const std::string& path);
// Names in a folder, sorted; none when the folder does not exist.
std::vector<std::string> list_folder(const std::string& path);
void rename_path(const std::string& from, const std::string& to);
// Exchanges two paths in one step; false where the file system cannot.
bool exchange_paths(const std::string& first, const std::string& second);
// Removes a folder and the files in it; links are removed, never followed, and folders
// within are refused. Nothing happens when it does not exist.
void remove_folder(const std::string& parent, const std::string& name);
// Bytes that this user may still write to the file system of `path`.
double free_bytes(const std::string& path);

// While it lives, crossing the file size limit is an error code and not a deadly signal.
class FileSizeSignalIgnored {
 public:
  FileSizeSignalIgnored();
  ~FileSizeSignalIgnored();
  FileSizeSignalIgnored(const FileSizeSignalIgnored&) = delete;
  FileSizeSignalIgnored& operator=(const FileSizeSignalIgnored&) = delete;

 private:
  void (*previous_)(int);
};

}  // namespace llmtrain::io
