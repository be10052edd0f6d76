#include "schedule.hpp"

#include <cstdlib>

#include "thread.hpp"

namespace emulation {
namespace {

// The number behind "word:", or no match.
bool takes_seed(const std::string& text, const std::string& word, std::uint64_t& seed) {
  if (text.rfind(word + ":", 0) != 0) return false;
  char* end = nullptr;
  const char* const digits = text.c_str() + word.size() + 1;
  seed = std::strtoull(digits, &end, 10);
  return end != digits && *end == '\0';
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Schedule parse_schedule(const std::string& order, const std::string& streams) {
  Schedule result;
  std::uint64_t seed = 0;
  if (order == "reverse") {
    result.order = Order::reverse;
  } else if (takes_seed(order, "shuffled", seed)) {
    result.order = Order::shuffled;
    result.order_random = Random(seed);
  } else if (!order.empty() && order != "forward") {
    report("LLMTRAIN_EMULATION_ORDER = " + order +
           " is not forward, reverse or shuffled:<seed>");
  }
  if (streams == "eager") {
    result.streams = Streams::eager;
  } else if (takes_seed(streams, "random", seed)) {
    result.streams = Streams::random;
    result.streams_random = Random(seed);
  } else if (!streams.empty() && streams != "lazy") {
    report("LLMTRAIN_EMULATION_STREAMS = " + streams +
           " is not eager, lazy or random:<seed>");
  }
  return result;
}

Schedule& schedule() {
  static Schedule schedule = parse_schedule(variable("LLMTRAIN_EMULATION_ORDER"),
                                            variable("LLMTRAIN_EMULATION_STREAMS"));
  return schedule;
}

void set_order(Order order, std::uint64_t seed) {
  schedule().order = order;
  schedule().order_random = Random(seed);
}

void set_streams(Streams streams, std::uint64_t seed) {
  schedule().streams = streams;
  schedule().streams_random = Random(seed);
}

}  // namespace emulation
