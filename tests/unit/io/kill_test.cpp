// SIGKILL at any instant leaves a loadable checkpoint, not older than the last one that was
// announced.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include "llmtrain/io/checkpoint.hpp"
#include "unit/io/synthetic_state.hpp"

namespace llmtrain::io {
namespace {

// Runs the saver until it dies, killed after `microseconds` if that is not 0, and returns
// the last step that it announced (0: none).
std::int64_t run_saver(const std::string& directory, const std::string& phase,
                       unsigned microseconds) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], 1);
    ::close(ends[0]);
    ::close(ends[1]);
    ::execl(CHECKPOINT_SAVER, CHECKPOINT_SAVER, directory.c_str(),
            phase.empty() ? nullptr : phase.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  if (microseconds > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    ::kill(child, SIGKILL);
  }
  std::string said;
  char part[4096];
  for (ssize_t got; (got = ::read(ends[0], part, sizeof part)) > 0;) {
    said.append(part, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
      << "the saver ended by itself: " << status;
  said.resize(said.rfind('\n') == std::string::npos ? 0 : said.rfind('\n'));
  return said.empty() ? 0 : std::stoll(said.substr(said.rfind('\n') + 1));
}

// The step of the checkpoint that is found and loads; 0: none.
std::int64_t load_newest(const std::string& directory) {
  const auto self = make_self_communicator();
  Log log(true);
  CheckpointStore store(*self, directory, {}, log);
  const auto path = store.find();
  if (!path) return 0;
  const Progress progress = store.read_progress(*path);
  Held held = cut({1, 1}, 0, Replicas::once);
  store.load(*path, held.pieces);
  EXPECT_EQ(wrong_elements(held, progress.step), 0);
  EXPECT_TRUE(progress == synthetic_progress(progress.step));
  for (const std::string& warning : log.warnings()) {
    // Death between commit and announcement leaves `latest` one step behind.
    EXPECT_NE(warning.find("latest: "), std::string::npos) << warning;
  }
  return progress.step;
}

TEST(Kill, AtEveryPhase) {
  const auto self = make_self_communicator();
  for (int phase = 0; phase <= static_cast<int>(SavePhase::done); ++phase) {
    const SharedFolder folder(*self);
    const std::int64_t announced = run_saver(folder.path(), std::to_string(phase), 0);
    EXPECT_EQ(announced, 2) << "phase " << phase;
    const bool committed = phase >= static_cast<int>(SavePhase::committed);
    EXPECT_EQ(load_newest(folder.path()), committed ? 3 : 2) << "phase " << phase;
  }
}

TEST(Kill, AtRandomInstants) {
  const auto self = make_self_communicator();
  const SharedFolder folder(*self);
  const char* const wanted = std::getenv("LLMTRAIN_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 20;
  std::mt19937 draw(static_cast<unsigned>(::getpid()));
  std::int64_t newest = 0;
  for (int i = 0; i < kills; ++i) {
    const std::int64_t announced = run_saver(folder.path(), "", 30000 + draw() % 400000);
    const std::int64_t found = load_newest(folder.path());
    EXPECT_GE(found, std::max(newest, announced));
    newest = found;
  }
  EXPECT_GT(newest, 0);
  std::printf("%d kills, %lld checkpoints\n", kills, static_cast<long long>(newest));
}

}  // namespace
}  // namespace llmtrain::io
