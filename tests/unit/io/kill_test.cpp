// SIGKILL at any instant leaves a loadable checkpoint, not older than the last one that was
// announced.
#include <random>

#include "unit/io/kill_support.hpp"

namespace llmtrain::io {
namespace {

bool killed(const SaverEnd& end) {
  return WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGKILL;
}

TEST(Kill, AtEveryPhase) {
  const auto self = make_self_communicator();
  for (int phase = 0; phase <= static_cast<int>(SavePhase::done); ++phase) {
    const SharedFolder folder(*self);
    const SaverEnd end =
        run_saver(cat(CHECKPOINT_SAVER " ", folder.path(), ' ', phase), 0);
    EXPECT_TRUE(killed(end)) << "phase " << phase;
    EXPECT_EQ(end.announced, 2) << "phase " << phase;
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
    const SaverEnd end = run_saver(cat(CHECKPOINT_SAVER " ", folder.path()),
                                   30000 + static_cast<unsigned>(draw() % 400000));
    EXPECT_TRUE(killed(end)) << end.status;
    const std::int64_t found = load_newest(folder.path());
    EXPECT_GE(found, std::max(newest, end.announced));
    newest = found;
  }
  EXPECT_GT(newest, 0);
  std::printf("%d kills, %lld checkpoints\n", kills, static_cast<long long>(newest));
}

}  // namespace
}  // namespace llmtrain::io
