#include "llmtrain/train/stop_requests.hpp"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <utility>

#include "llmtrain/core/error.hpp"

namespace llmtrain {

namespace {

sigset_t signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT}) sigaddset(&set, signal);
  return set;
}

}  // namespace

std::string stop_reason(unsigned requests) {
  if (requests & kStopBySignal) return "a signal";
  if (requests & kStopByFile) return "the file STOP";
  return "run.wall_time";
}

StopRequests::StopRequests() {
  const sigset_t set = signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  listener_ = std::thread([this] { listen(); });
}

StopRequests::~StopRequests() {
  ending_ = true;
  listener_.join();
}

void StopRequests::begin(bool watches_files, std::string directory, double wall_seconds,
                         Timer started) {
  watches_files_ = watches_files;
  directory_ = std::move(directory);
  wall_seconds_ = wall_seconds;
  started_ = started;
  begun_ = true;
}

void StopRequests::listen() {
  const sigset_t set = signals();
  const timespec pause{0,
                       50'000'000};  // how long the end may have to wait for this thread
  while (!ending_) {
    const int signal = sigtimedwait(&set, nullptr, &pause);
    if (signal > 0) take(signal);
  }
}

void StopRequests::take(int signal) {
  if (signal == SIGUSR2) {
    save_signalled_ = true;
    return;
  }
  if (!begun_) _exit(128 + signal);
  if (signal == SIGINT && ++interrupts_ > 1) _exit(static_cast<int>(Status::interrupted));
  stop_signalled_ = true;
}

bool StopRequests::take_file(const char* name) const {
  return unlink((directory_ + '/' + name).c_str()) == 0;
}

unsigned StopRequests::poll(double margin_seconds) {
  unsigned requests = kNoRequest;
  if (stop_signalled_) requests |= kStopBySignal;
  if (save_signalled_.exchange(false)) requests |= kSaveBySignal;
  if (!watches_files_) return requests;
  if (take_file("STOP")) requests |= kStopByFile;
  if (take_file("SAVE")) requests |= kSaveByFile;
  if (wall_seconds_ > 0 && started_.seconds() + margin_seconds >= wall_seconds_) {
    requests |= kStopByWallTime;
  }
  return requests;
}

}  // namespace llmtrain
