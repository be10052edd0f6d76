// One of three ranks is killed in each phase of a save, and at random instants; the launcher
// ends the others. What is left loads, on one rank.
#include <random>

#include "unit/io/kill_support.hpp"

namespace llmtrain::io {
namespace {

// The environment of this process would make the launcher think it is in a job already.
const std::string kLauncher =
    "env -i PATH=\"$PATH\" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
    "OMPI_MCA_btl_vader_single_copy_mechanism=none " MPIEXEC
    " --oversubscribe --bind-to none -np 3 ";

class KillRanks : public testing::TestWithParam<int> {};

TEST_P(KillRanks, InEveryPhase) {
  const auto self = make_self_communicator();
  for (int victim = 0; victim < 3; ++victim) {
    const int phase = GetParam();
    // Only rank 0 prunes.
    if (phase == static_cast<int>(SavePhase::prune) && victim != 0) continue;
    const SharedFolder folder(*self);
    const SaverEnd end = run_saver(
        cat(kLauncher, CHECKPOINT_SAVER " ", folder.path(), ' ', phase, ' ', victim), 0);
    EXPECT_NE(end.status, 0);
    // Until the launcher acts the others go on as far as they can without the victim.
    const std::int64_t found = load_newest(folder.path());
    EXPECT_GE(found, std::max(end.announced, std::int64_t{2})) << "rank " << victim;
    EXPECT_LE(found, 3) << "rank " << victim;
  }
}

TEST_P(KillRanks, AtRandomInstants) {
  const auto self = make_self_communicator();
  std::mt19937 draw(static_cast<unsigned>(::getpid() + GetParam()));
  const SharedFolder folder(*self);
  std::int64_t newest = 0;
  for (int i = 0; i < 3; ++i) {
    const auto microseconds = 10000 + draw() % 300000;
    const SaverEnd end = run_saver(cat(kLauncher, CHECKPOINT_SAVER " ", folder.path(),
                                       " -", microseconds, ' ', draw() % 3),
                                   0);
    EXPECT_NE(end.status, 0);
    const std::int64_t found = load_newest(folder.path());
    EXPECT_GE(found, std::max(newest, end.announced));
    newest = found;
  }
}

INSTANTIATE_TEST_SUITE_P(Phases, KillRanks,
                         testing::Range(0, static_cast<int>(SavePhase::done) + 1));

}  // namespace
}  // namespace llmtrain::io
