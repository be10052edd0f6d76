#include "io/posix_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "llmtrain/core/error.hpp"

namespace llmtrain::io {

namespace {

[[noreturn]] void fail_errno(const std::string& path, const char* what, int error) {
  fail(Status::io, path, ": cannot ", what, ": ", std::strerror(error));
}

template <class Call>
auto retried(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

PosixFile::PosixFile(const std::string& path, int flags, const char* what)
    : path_(path), descriptor_(retried([&] {
        return ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0666);
      })) {
  if (descriptor_ < 0) fail_errno(path, what, errno);
}

PosixFile PosixFile::open_for_reading(const std::string& path) {
  // Without O_NONBLOCK the open of a FIFO would wait for ever.
  PosixFile file(path, O_RDONLY | O_NONBLOCK, "open");
  struct stat status;
  if (::fstat(file.descriptor_, &status) != 0) fail_errno(path, "examine", errno);
  if (!S_ISREG(status.st_mode)) fail(Status::io, path, ": is not a regular file");
  return file;
}

PosixFile PosixFile::open_for_writing(const std::string& path) {
  return {path, O_RDWR, "open for writing"};
}

PosixFile PosixFile::create(const std::string& path) {
  return {path, O_RDWR | O_CREAT | O_EXCL, "create"};
}

PosixFile::PosixFile(PosixFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

PosixFile::~PosixFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

index_t PosixFile::size() const {
  struct stat status;
  if (::fstat(descriptor_, &status) != 0) fail_errno(path_, "examine", errno);
  return status.st_size;
}

void PosixFile::read_at(index_t offset, void* data, index_t bytes) const {
  auto* to = static_cast<char*>(data);
  while (bytes > 0) {
    const auto part = static_cast<std::size_t>(std::min(bytes, index_t{1} << 30));
    const ssize_t got = retried([&] { return ::pread(descriptor_, to, part, offset); });
    if (got < 0) fail_errno(path_, "read", errno);
    if (got == 0) fail(Status::io, path_, ": ends at byte ", offset, ", too early");
    to += got, offset += got, bytes -= got;
  }
}

void PosixFile::write_at(index_t offset, const void* data, index_t bytes) const {
  const auto* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const auto part = static_cast<std::size_t>(std::min(bytes, index_t{1} << 30));
    const ssize_t put =
        retried([&] { return ::pwrite(descriptor_, from, part, offset); });
    if (put < 0) fail_errno(path_, "write", errno);
    if (put == 0) fail(Status::io, path_, ": cannot write: nothing was taken");
    from += put, offset += put, bytes -= put;
  }
}

void PosixFile::allocate(index_t bytes) const {
  if (bytes == 0) return;
  int error = ::posix_fallocate(descriptor_, 0, bytes);
  while (error == EINTR) error = ::posix_fallocate(descriptor_, 0, bytes);
  // Where the file system cannot do this, the writes find out.
  if (error != 0 && error != EOPNOTSUPP && error != EINVAL) {
    fail_errno(path_, "allocate", error);
  }
}

void PosixFile::sync() const {
  if (retried([&] { return ::fsync(descriptor_); }) != 0)
    fail_errno(path_, "sync", errno);
}

void PosixFile::close() {
  // The descriptor is gone whatever close returns, so there is no retry.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) {
    fail_errno(path_, "close", errno);
  }
}

void sync_folder(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_errno(path, "open", errno);
  const int rc = retried([&] { return ::fsync(descriptor); });
  const int error = errno;
  ::close(descriptor);
  if (rc != 0 && error != EINVAL) fail_errno(path, "sync", error);  // EINVAL: has no sync
}

void write_new_file(const std::string& path, std::string_view bytes) {
  PosixFile file = PosixFile::create(path);
  file.allocate(static_cast<index_t>(bytes.size()));
  file.write_at(0, bytes.data(), static_cast<index_t>(bytes.size()));
  file.sync();
  file.close();
}

void replace_file(const std::string& folder, const std::string& name,
                  std::string_view bytes) {
  const std::string next = folder + "/." + name + ".next";
  if (::unlink(next.c_str()) != 0 && errno != ENOENT) fail_errno(next, "remove", errno);
  write_new_file(next, bytes);
  rename_path(next, folder + "/" + name);
  sync_folder(folder);
}

std::string read_file(const std::string& path, index_t limit) {
  const PosixFile file = PosixFile::open_for_reading(path);
  const index_t size = file.size();
  if (size > limit) {
    fail(Status::io, path, ": has ", size, " bytes, more than the ", limit, " allowed");
  }
  std::string bytes(static_cast<std::size_t>(size), '\0');
  file.read_at(0, bytes.data(), size);
  return bytes;
}

void make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0) fail_errno(path, "create", errno);
}

bool exists(const std::string& path) {
  struct stat status;
  return ::lstat(path.c_str(), &status) == 0;
}

std::vector<std::string> list_folder(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), &::closedir);
  if (!folder) {
    if (errno == ENOENT) return {};
    fail_errno(path, "list", errno);
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) fail_errno(path, "list", errno);
  std::sort(names.begin(), names.end());
  return names;
}

void rename_path(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) {
    fail(Status::io, from, ": cannot rename to ", to, ": ", std::strerror(errno));
  }
}

bool exchange_paths(const std::string& first, const std::string& second) {
  if (::renameat2(AT_FDCWD, first.c_str(), AT_FDCWD, second.c_str(), RENAME_EXCHANGE) ==
      0) {
    return true;
  }
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return false;
  fail(Status::io, first, ": cannot exchange with ", second, ": ", std::strerror(errno));
}

void remove_folder(const std::string& parent, const std::string& name) {
  const std::string path = parent + "/" + name;
  const int outer = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (outer < 0) fail_errno(parent, "open", errno);
  const int inner =
      ::openat(outer, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  int error = inner < 0 ? errno : 0;
  const bool missing = error == ENOENT;
  if (inner >= 0) {
    for (const std::string& entry : list_folder(path)) {
      if (::unlinkat(inner, entry.c_str(), 0) != 0 && errno != ENOENT) error = errno;
    }
    ::close(inner);
    if (error == 0 && ::unlinkat(outer, name.c_str(), AT_REMOVEDIR) != 0) error = errno;
  }
  ::close(outer);
  if (error != 0 && !missing) fail_errno(path, "remove", error);
}

double free_bytes(const std::string& path) {
  struct statvfs status;
  if (::statvfs(path.c_str(), &status) != 0) fail_errno(path, "examine", errno);
  return static_cast<double>(status.f_bavail) * static_cast<double>(status.f_frsize);
}

FileSizeSignalIgnored::FileSizeSignalIgnored()
    : previous_(std::signal(SIGXFSZ, SIG_IGN)) {}

FileSizeSignalIgnored::~FileSizeSignalIgnored() { std::signal(SIGXFSZ, previous_); }

}  // namespace llmtrain::io
