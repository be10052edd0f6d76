// In which order blocks, threads and streams go on: chosen by a test, or for a whole
// process by LLMTRAIN_EMULATION_ORDER and LLMTRAIN_EMULATION_STREAMS.
#pragma once

#include <cstdint>
#include <string>

namespace emulation {

enum class Order {
  forward,   // by rising number, of blocks and of threads
  reverse,   // by falling number
  shuffled,  // by the seed; some warps lag far behind others
};

// "forward", "reverse" or "shuffled:<seed>".
void set_order(Order order, std::uint64_t seed = 0);

enum class Streams {
  eager,   // work runs as soon as its stream lets it
  lazy,    // work runs when a synchronisation needs it, and no other work with it
  random,  // some work of some streams runs at every call
};

// "eager", "lazy" (the default) or "random:<seed>".
void set_streams(Streams streams, std::uint64_t seed = 0);

// A source of random numbers that is the same everywhere (splitmix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  unsigned below(unsigned bound) {
    return static_cast<unsigned>((next() >> 32) * bound >> 32);
  }

 private:
  std::uint64_t state_;
};

struct Schedule {
  Order order = Order::forward;
  Random order_random{0};
  Streams streams = Streams::lazy;
  Random streams_random{0};
};
// Of the texts of the two variables; empty ones mean forward and lazy. Ends the process at
// one that it does not know.
Schedule parse_schedule(const std::string& order, const std::string& streams);
// The process's own, at first as the environment says.
Schedule& schedule();

}  // namespace emulation
