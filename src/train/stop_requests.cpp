#include "llmtrain/train/stop_requests.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "llmtrain/core/error.hpp"

namespace llmtrain {

namespace {

// Signal handlers can reach nothing but globals.
volatile std::sig_atomic_t stop_signalled = 0;
volatile std::sig_atomic_t save_signalled = 0;
volatile std::sig_atomic_t interrupts = 0;

void on_signal(int signal) {
  if (signal == SIGUSR2) {
    save_signalled = 1;
    return;
  }
  if (signal == SIGINT) {
    interrupts = interrupts + 1;
    if (interrupts > 1) _exit(static_cast<int>(Status::interrupted));
  }
  stop_signalled = 1;
}

constexpr int kSignals[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT};

void set_handlers(void (*handler)(int)) {
  for (const int signal : kSignals) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;  // reads and writes of the run are not disturbed
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace

std::string stop_reason(unsigned requests) {
  if (requests & kStopBySignal) return "a signal";
  if (requests & kStopByFile) return "the file STOP";
  return "run.wall_time";
}

StopRequests::StopRequests(bool watches_files, std::string directory, double wall_seconds,
                           Timer started)
    : watches_files_(watches_files),
      directory_(std::move(directory)),
      wall_seconds_(wall_seconds),
      started_(started) {
  stop_signalled = 0;
  save_signalled = 0;
  interrupts = 0;
  set_handlers(on_signal);
}

StopRequests::~StopRequests() { set_handlers(SIG_DFL); }

bool StopRequests::take_file(const char* name) const {
  return unlink((directory_ + '/' + name).c_str()) == 0;
}

unsigned StopRequests::poll(double margin_seconds) {
  unsigned requests = kNoRequest;
  if (stop_signalled) requests |= kStopBySignal;
  if (save_signalled) {
    save_signalled = 0;
    requests |= kSave;
  }
  if (!watches_files_) return requests;
  if (take_file("STOP")) requests |= kStopByFile;
  if (take_file("SAVE")) requests |= kSave;
  if (wall_seconds_ > 0 && started_.seconds() + margin_seconds >= wall_seconds_) {
    requests |= kStopByWallTime;
  }
  return requests;
}

}  // namespace llmtrain
