#include "app/runtime.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "llmtrain/comm/mpi_runtime.hpp"
#include "llmtrain/core/error.hpp"

namespace llmtrain::app {
namespace {

// What together() throws on this rank.
Error caught(Communicator& world, const std::function<void()>& work) {
  try {
    together(world, work);
  } catch (const Error& error) {
    return error;
  }
  return Error(Status::finished, "nothing");
}

TEST(Together, NothingHappensWhenAllIsWell) {
  const auto world = make_world_communicator();
  EXPECT_EQ(caught(*world, [] {}).status(), Status::finished);
}

TEST(Together, AFaultOfAllIsToldOnce) {
  const auto world = make_world_communicator();
  const Error error = caught(*world, [] { fail(Status::bad_data, "no file"); });
  EXPECT_EQ(error.status(), Status::bad_data);
  EXPECT_EQ(error.reach(), Reach::every_rank);
  EXPECT_STREQ(error.what(), "no file");
}

TEST(Together, AFaultOfOneReachesAllAndNamesItsRank) {
  const auto world = make_world_communicator();
  const int last = world->size() - 1;
  const Error error = caught(*world, [&] {
    if (world->rank() == last) fail(Status::io, "disk of ", last);
  });
  EXPECT_EQ(error.status(), Status::io);
  EXPECT_EQ(std::string(error.what()),
            last == 0 ? "disk of 0" : cat("[rank ", last, "] disk of ", last));
}

TEST(Together, DifferentFaultsAreAllTold) {
  const auto world = make_world_communicator();
  const Error error =
      caught(*world, [&] { fail(Status::io, "fault ", world->rank() % 2); });
  for (int r = 0; r < std::min(2, world->size()); ++r) {
    EXPECT_NE(std::string(error.what()).find(cat("fault ", r)), std::string::npos);
  }
}

TEST(Threads, AreWhatWasAskedOrAShareOfTheCores) {
  const auto world = make_world_communicator();
  Log log(false);
  EXPECT_EQ(set_threads(*world, 3, log), 3);
  const int share = set_threads(*world, 0, log);
  EXPECT_GE(share, 1);
  EXPECT_NE(describe_hosts(*world, share).find(cat(world->size(), " ranks x ", share)),
            std::string::npos);
}

TEST(RunLock, HoldsADirectoryAgainstOthersUntilItEnds) {
  std::string folder = std::filesystem::temp_directory_path() / "llmtrain-lock-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  Log log(false);
  {
    const RunLock lock("run.directory", folder, log);
    try {
      const RunLock second("run.directory", folder, log);
      FAIL() << "locked twice";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::usage);
      EXPECT_NE(std::string(error.what()).find(folder), std::string::npos);
    }
  }
  EXPECT_NO_THROW(RunLock("run.directory", folder, log));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace llmtrain::app
