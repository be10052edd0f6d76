// Who may ask a run to save or stop, and when it is heard: requests are collected locally and
// ride in the reduction of every step, so that all ranks act after the same step.
//
//   SIGUSR1, SIGTERM, first SIGINT, file STOP, run.wall_time   save, stop (status 75)
//   SIGUSR2, file SAVE                                         save, go on
//   second SIGINT                                              end at once (status 130)
#pragma once

#include <atomic>
#include <string>
#include <thread>

#include "llmtrain/core/timer.hpp"

namespace llmtrain {

enum Request : unsigned {
  kNoRequest = 0,
  kStopBySignal = 1,
  kStopByFile = 2,
  kStopByWallTime = 4,
  kSaveBySignal = 8,
  kSaveByFile = 16,
};
constexpr unsigned kStop = kStopBySignal | kStopByFile | kStopByWallTime;

// For the summary: "a signal", "the file STOP", "run.wall_time".
std::string stop_reason(unsigned requests);

// One per process, made in main before any other thread. Signals are taken by a thread of its
// own, never by a handler: a handler's frame is written wherever the interrupted thread's stack
// pointer is, and oneDNN's generated kernels keep theirs in a heap buffer.
class StopRequests {
 public:
  // Blocks the signals in this thread and in all that it starts from now on. Until begin(), a
  // signal that asks to stop ends the process at once (status 128 + signal).
  StopRequests();
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  // A run begins: from now on requests wait for poll(). `watches_files`: this rank looks for
  // STOP and SAVE in `directory` and at the clock (one rank does). `wall_seconds`: after this
  // many since `started` the run must have ended; 0: no limit.
  void begin(bool watches_files, std::string directory, double wall_seconds,
             Timer started);

  // The requests of this rank since the last call; a stop stays. `margin_seconds`: what the
  // next step and a save may take. A file that was seen is removed.
  unsigned poll(double margin_seconds);

 private:
  void listen();
  void take(int signal);
  bool take_file(const char* name) const;

  std::atomic<bool> begun_{false}, ending_{false};
  std::atomic<bool> stop_signalled_{false}, save_signalled_{false};
  int interrupts_ = 0;  // the listening thread's
  bool watches_files_ = false;
  std::string directory_;
  double wall_seconds_ = 0;
  Timer started_;
  std::thread listener_;
};

}  // namespace llmtrain
