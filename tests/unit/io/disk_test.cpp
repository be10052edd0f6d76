// Disks that are full, limited or read-only: the save fails with the reason, leaves no
// trace, the process goes on, and the next save succeeds.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "llmtrain/io/checkpoint.hpp"
#include "unit/io/synthetic_state.hpp"

namespace llmtrain::io {
namespace {

namespace fs = std::filesystem;

SaveReport save(CheckpointStore& store, std::int64_t step) {
  Held held = cut({1, 1}, 0, Replicas::once);
  fill(held, step);
  return store.save(held.pieces, synthetic_progress(step), synthetic_provenance());
}

bool loads(CheckpointStore& store, const std::string& path, std::int64_t step) {
  Held held = cut({1, 1}, 0, Replicas::once);
  store.load(path, held.pieces);
  return wrong_elements(held, step) == 0;
}

std::size_t entries(const std::string& path) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}

class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(Disk, FileSizeLimitAtEveryPlace) {
  const auto self = make_self_communicator();
  const SharedFolder folder(*self);
  Log log(false);
  CheckpointStore store(*self, folder.path(), {}, log);
  ASSERT_TRUE(save(store, 1).saved);
  int failures = 0;
  bool saved = false;
  for (rlim_t limit = 0; !saved; limit += limit < 8192 ? 512 : 4096) {
    ASSERT_LT(limit, rlim_t{1} << 24);
    SaveReport report;
    {
      const FileSizeLimit limited(limit);
      report = save(store, 2);
    }
    saved = report.saved;
    if (saved) continue;
    ++failures;
    EXPECT_NE(report.fault, "") << limit;
    EXPECT_EQ(entries(folder.path()), 2u) << limit << ' ' << report.fault;
    EXPECT_TRUE(loads(store, folder.path() + "/step-0000000001", 1));
  }
  EXPECT_GT(failures, 10);
  EXPECT_TRUE(loads(store, folder.path() + "/step-0000000002", 2));
}

// A file system of its own; needs the right to mount.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& path, const char* options)
      : path_(path), mounted_(::mount("tmpfs", path.c_str(), "tmpfs", 0, options) == 0) {}
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }

 private:
  std::string path_;
  bool mounted_;
};

// What saving says on a tmpfs of these options.
void expect_failure(const char* options, const std::string& reason) {
  const auto self = make_self_communicator();
  const SharedFolder folder(*self);
  const SmallDisk disk(folder.path(), options);
  if (!disk.mounted())
    GTEST_SKIP() << "no right to mount a tmpfs: " << std::strerror(errno);
  Log log(false);
  CheckpointStore store(*self, folder.path(), {}, log);
  for (int attempt = 0; attempt < 3; ++attempt) {
    const SaveReport report = save(store, 1);
    EXPECT_FALSE(report.saved);
    EXPECT_NE(report.fault.find(reason), std::string::npos) << report.fault;
    EXPECT_EQ(entries(folder.path()), 0u);
  }
}

TEST(Disk, NoRoomIsSeenBeforeAnythingIsWritten) {
  expect_failure("size=64k", "has room for");
}

TEST(Disk, FullWhileWriting) {
  // Inodes for the folder and one file, not for two.
  expect_failure("size=64m,nr_inodes=3", "No space left on device");
}

TEST(Disk, ReadOnly) {
  const auto self = make_self_communicator();
  const SharedFolder folder(*self);
  Log log(false);
  CheckpointStore store(*self, folder.path(), {}, log);
  const bool root = ::geteuid() == 0;  // for whom permissions are no obstacle
  const SmallDisk disk(folder.path(), "size=64m");
  if (root && !disk.mounted()) {
    GTEST_SKIP() << "no right to mount a tmpfs: " << std::strerror(errno);
  }
  if (root) {
    ASSERT_EQ(::mount("", folder.path().c_str(), "", MS_REMOUNT | MS_RDONLY, ""), 0);
  } else {
    ::chmod(folder.path().c_str(), 0555);
  }
  const SaveReport report = save(store, 1);
  if (!root) ::chmod(folder.path().c_str(), 0755);
  EXPECT_FALSE(report.saved);
  EXPECT_NE(report.fault.find(root ? "Read-only file system" : "Permission denied"),
            std::string::npos)
      << report.fault;
}

TEST(Disk, DirectoryThatCannotBe) {
  const auto self = make_self_communicator();
  Log log(false);
  try {
    CheckpointStore store(*self, "/dev/null/checkpoints", {}, log);
    FAIL() << "made";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::io);
  }
}

}  // namespace
}  // namespace llmtrain::io
