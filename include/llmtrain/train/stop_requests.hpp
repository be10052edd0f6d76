// Who may ask a run to save or stop, and when it is heard: requests are collected locally and
// ride in the reduction of every step, so that all ranks act after the same step.
//
//   SIGUSR1, SIGTERM, first SIGINT, file STOP, run.wall_time   save, stop (status 75)
//   SIGUSR2, file SAVE                                         save, go on
//   second SIGINT                                              end at once (status 130)
#pragma once

#include <string>

#include "llmtrain/core/timer.hpp"

namespace llmtrain {

enum Request : unsigned {
  kNoRequest = 0,
  kStopBySignal = 1,
  kStopByFile = 2,
  kStopByWallTime = 4,
  kSave = 8,
};
constexpr unsigned kStop = kStopBySignal | kStopByFile | kStopByWallTime;

// For the summary: "a signal", "the file STOP", "run.wall_time".
std::string stop_reason(unsigned requests);

// One per process: it owns the signal handlers while it lives.
class StopRequests {
 public:
  // `watches_files`: this rank looks for STOP and SAVE in `directory` and at the clock (one
  // rank does). `wall_seconds`: after this many since `started` the run must have ended; 0: no
  // limit.
  StopRequests(bool watches_files, std::string directory, double wall_seconds,
               Timer started);
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  // The requests of this rank since the last call. `margin_seconds`: what the next step and a
  // save may take. A file that was seen is removed.
  unsigned poll(double margin_seconds);

 private:
  bool take_file(const char* name) const;

  bool watches_files_;
  std::string directory_;
  double wall_seconds_;
  Timer started_;
};

}  // namespace llmtrain
