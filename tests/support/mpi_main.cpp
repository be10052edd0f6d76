// main() of every test: GoogleTest with or without mpirun.
//
// A test fails when it fails on any rank; only rank 0 prints passes, every rank prints its own
// failures. A watchdog names the test that hangs and ends the job, where a bare timeout would
// only say that something did.
#include <gtest/gtest.h>
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

class Watchdog : public testing::EmptyTestEventListener {
 public:
  Watchdog(int rank, std::chrono::seconds limit) : rank_(rank), limit_(limit) {
    std::thread([this] { watch(); }).detach();
  }

  void OnTestStart(const testing::TestInfo& info) override {
    std::snprintf(name_, sizeof name_, "%s.%s", info.test_suite_name(), info.name());
    started_.store(Clock::now().time_since_epoch().count());
  }
  void OnTestEnd(const testing::TestInfo&) override { started_.store(0); }

 private:
  void watch() {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      const auto started = started_.load();
      if (started != 0 &&
          Clock::now() - Clock::time_point(Clock::duration(started)) > limit_) {
        std::fprintf(stderr, "[rank %d] watchdog: %s hangs for more than %lld s\n", rank_,
                     name_, static_cast<long long>(limit_.count()));
        std::_Exit(77);  // mpirun ends the other ranks
      }
    }
  }

  int rank_;
  std::chrono::seconds limit_;
  std::atomic<Clock::rep> started_{0};
  char name_[256] = "";
};

// Prefixes failures with the rank; used on all ranks but 0.
class FailurePrinter : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %d] %s:%d: %s\n", rank_,
                 result.file_name() ? result.file_name() : "?", result.line_number(),
                 result.message());
  }

 private:
  int rank_;
};

}  // namespace

int main(int argc, char** argv) {
  // As the program's main: MPI's threads leave these signals to whom a test makes wait for them.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT})
    sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  testing::InitGoogleTest(&argc, argv);
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(rank));
  }
  const char* const limit = std::getenv("LLMTRAIN_TEST_SECONDS");
  listeners.Append(
      new Watchdog(rank, std::chrono::seconds(limit ? std::atoi(limit) : 60)));
  int failed = RUN_ALL_TESTS();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}
