// The threads of the running block, and what is reported about them.
#pragma once

#include <cstring>
#include <span>
#include <string>

#include "engine.hpp"
#include "fibre.hpp"
#include "sanitizers.hpp"

namespace emulation {

constexpr unsigned kWarp = 32;
constexpr unsigned kMostThreads = 1024;

enum class State { ready, at_barrier, in_warp, asleep, finished };

struct Thread {
  uint3 index{};
  unsigned number = 0;  // within the block
  Fibre* fibre = nullptr;
  State state = State::ready;
  bool fenced = false;  // has executed a __threadfence()

  // Where it waits, and for which lanes with what in hand.
  Call call{};
  unsigned mask = 0;
  std::uint64_t value = 0;  // given, then received
  unsigned source = 0;
  Combine combine = nullptr;

  unsigned warp() const { return number / kWarp; }
  unsigned lane() const { return number % kWarp; }
  unsigned lane_bit() const { return 1u << lane(); }
};

inline bool same_place(const Call& a, const Call& b) {
  return a.name == b.name && a.site.line() == b.site.line() &&
         (a.site.file_name() == b.site.file_name() ||
          std::strcmp(a.site.file_name(), b.site.file_name()) == 0);
}

// Ends the process with `what` and a list of where the threads of the block are: one line
// for each place.
[[noreturn]] void report(const std::string& what, std::span<const Thread> threads);
// The same without a running block.
[[noreturn]] void report(const std::string& what);

}  // namespace emulation
