#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "thread.hpp"

namespace emulation {
namespace {

struct Group {
  const Thread* first;
  std::vector<unsigned> numbers;
};

bool alike(const Thread& a, const Thread& b) {
  if (a.state != b.state) return false;
  switch (a.state) {
    case State::at_barrier:
      return same_place(a.call, b.call);
    case State::in_warp:
      return same_place(a.call, b.call) && a.mask == b.mask;
    case State::ready:
    case State::asleep:
    case State::finished:
      return true;
  }
  return false;
}

// "0-30, 32, 64-127"
std::string ranges(const std::vector<unsigned>& numbers) {
  std::ostringstream out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out << (i == 0 ? "" : ", ") << numbers[i];
    if (last > i) out << '-' << numbers[last];
    i = last + 1;
  }
  return out.str();
}

std::string place(const Thread& thread) {
  std::ostringstream out;
  switch (thread.state) {
    case State::at_barrier:
    case State::in_warp:
      out << thread.call.site.file_name() << ':' << thread.call.site.line() << ": in "
          << thread.call.name;
      if (thread.state == State::in_warp)
        out << "(mask 0x" << std::hex << thread.mask << ')';
      out << " of " << thread.call.site.function_name();
      break;
    case State::ready:
      out << "can run";
      break;
    case State::asleep:
      out << "in __nanosleep";
      break;
    case State::finished:
      out << "exited";
      break;
  }
  return out.str();
}

}  // namespace

void report(const std::string& what) {
  std::fflush(stdout);
  std::fprintf(stderr, "emulation: %s\n", what.c_str());
  std::abort();
}

void report(const std::string& what, std::span<const Thread> threads) {
  std::vector<Group> groups;
  for (const Thread& thread : threads) {
    Group* home = nullptr;
    for (Group& group : groups) {
      if (alike(*group.first, thread)) home = &group;
    }
    if (home == nullptr) home = &groups.emplace_back(Group{&thread, {}});
    home->numbers.push_back(thread.number);
  }
  std::ostringstream out;
  out << what << "\n  block (" << block_index.x << ", " << block_index.y << ", "
      << block_index.z << ") of " << threads.size() << " threads:";
  for (const Group& group : groups) {
    out << "\n  " << place(*group.first) << ": "
        << (group.numbers.size() == 1 ? "thread " : "threads ") << ranges(group.numbers);
  }
  report(out.str());
}

}  // namespace emulation
