// Wall-clock seconds.
#pragma once

#include <chrono>

namespace llmtrain {

class Timer {
 public:
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }
  // Seconds since construction or the last lap.
  double lap() {
    const auto now = Clock::now();
    const double elapsed = std::chrono::duration<double>(now - start_).count();
    start_ = now;
    return elapsed;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace llmtrain
