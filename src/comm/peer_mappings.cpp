#include "peer_mappings.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "llmtrain/core/error.hpp"

namespace llmtrain {

namespace {

std::byte* map_of(pid_t process, const SharedPlace& place) {
  const std::string path = cat("/proc/", process, "/fd/", place.descriptor);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  const auto bytes = static_cast<std::size_t>(place.bytes);
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);  // the mapping holds the file
  if (data == MAP_FAILED) return nullptr;
  madvise(data, bytes, MADV_HUGEPAGE);
  madvise(data, bytes, MADV_DONTFORK);
  return static_cast<std::byte*>(data);
}

}  // namespace

PeerMappings::~PeerMappings() {
  for (OfRank& all : of_rank_) drop(all);
}

void PeerMappings::drop(OfRank& all) {
  for (const auto& [id, mapping] : all.by_id) {
    if (mapping.data != nullptr) {
      munmap(mapping.data, static_cast<std::size_t>(mapping.bytes));
    }
  }
  all.by_id.clear();
}

std::byte* PeerMappings::find(int rank, pid_t process, const SharedPlace& place,
                              std::uint64_t freed) {
  OfRank& all = of_rank_[static_cast<std::size_t>(rank)];
  // Buffers are freed seldom; which ones are still alive need not be told.
  if (all.freed != freed) drop(all);
  all.freed = freed;
  if (place.id == 0) return nullptr;
  auto at = all.by_id.find(place.id);
  if (at == all.by_id.end()) {
    const Mapping mapping{map_of(process, place), place.bytes};
    at = all.by_id.emplace(place.id, mapping).first;
  }
  std::byte* const data = at->second.data;
  return data == nullptr ? nullptr : data + place.offset;
}

}  // namespace llmtrain
