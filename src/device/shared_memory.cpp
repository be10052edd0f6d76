#include "llmtrain/device/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <map>
#include <mutex>

#include "llmtrain/core/error.hpp"

namespace llmtrain {

namespace {

struct Allocation {
  SharedPlace place;
  pid_t owner;
};

struct Registry {
  std::mutex mutex;
  std::map<const std::byte*, Allocation, std::greater<>> allocations;  // by its begin
  std::uint64_t created = 0, freed = 0;
};

// Never destroyed: buffers may outlive static objects.
Registry& registry() {
  static Registry* const all = new Registry;
  return *all;
}

// Descriptors are given out from the lowest, so the upper half stays for other files. A
// file above the limit of its size would be a signal.
bool limits_allow(int descriptor, index_t bytes) {
  rlimit files{}, size{};
  return getrlimit(RLIMIT_NOFILE, &files) == 0 && getrlimit(RLIMIT_FSIZE, &size) == 0 &&
         static_cast<rlim_t>(descriptor) < files.rlim_cur / 2 &&
         static_cast<rlim_t>(bytes) <= size.rlim_cur;
}

// Maps the file at `data`, where private memory lies, with all its pages; false with errno
// set.
bool map_whole(int descriptor, void* data, std::size_t bytes) {
  const auto size = static_cast<off_t>(bytes);
  if (ftruncate(descriptor, size) != 0) return false;
  if (mmap(data, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0) ==
      MAP_FAILED) {
    return false;
  }
  // Large pages where the system has them for shared memory (shmem_enabled). A child that
  // does not exec would share the pages, not copy them: it gets none.
  madvise(data, bytes, MADV_HUGEPAGE);
  madvise(data, bytes, MADV_DONTFORK);
#ifdef MADV_POPULATE_WRITE
  madvise(data, bytes, MADV_POPULATE_WRITE);  // one call, not a fault for each page
#endif
  // Finds the pages there, or says that memory is short.
  errno = posix_fallocate(descriptor, 0, size);
  return errno == 0;
}

}  // namespace

std::byte* SharedMemory::allocate(index_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  // Private memory first: the system refuses at once what is more than it has, where
  // filling a file would use up all memory before it fails.
  void* const place =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  const int descriptor = memfd_create("llmtrain", MFD_CLOEXEC);
  bool done = descriptor >= 0;
  if (done && !limits_allow(descriptor, bytes)) {
    errno = EMFILE;
    done = false;
  }
  if (!done || !map_whole(descriptor, place, size)) {
    const int error = errno;
    munmap(place, size);
    if (descriptor >= 0) close(descriptor);
    errno = error;
    return nullptr;
  }
  const auto data = static_cast<std::byte*>(place);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.allocations[data] = {
      .place = {.id = ++all.created, .descriptor = descriptor, .bytes = bytes},
      .owner = getpid()};
  return data;
}

void SharedMemory::free(std::byte* data) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto at = all.allocations.find(data);
  require(at != all.allocations.end(), "freed shared memory that is not");
  const auto [place, owner] = at->second;
  all.allocations.erase(at);
  ++all.freed;
  // A forked child has the descriptor, but the memory is not its own.
  if (owner == getpid()) {
    munmap(data, static_cast<std::size_t>(place.bytes));
    // Others' mappings would keep the pages. A hole, for whoever still reads (as when this
    // rank ends by an error) finds zeros there, and in a shorter file a signal. Should it
    // fail, the pages end with the mappings.
    [[maybe_unused]] const int ignored =
        fallocate(place.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                  static_cast<off_t>(place.bytes));
  }
  close(place.descriptor);
}

std::optional<SharedPlace> SharedMemory::find(const std::byte* address) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  // Sorted downwards: the first that does not begin behind the address.
  const auto at = all.allocations.lower_bound(address);
  if (at == all.allocations.end()) return {};
  SharedPlace place = at->second.place;
  place.offset = address - at->first;
  if (place.offset >= place.bytes) return {};
  return place;
}

std::uint64_t SharedMemory::freed() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  return all.freed;
}

}  // namespace llmtrain
