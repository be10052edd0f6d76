#include "llmtrain/train/stop_requests.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace llmtrain {
namespace {

class StopRequestsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "llmtrain-stop-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_;
};

TEST_F(StopRequestsTest, SignalsAreHeardAtTheNextPoll) {
  StopRequests requests(true, folder_, 0, Timer());
  EXPECT_EQ(requests.poll(0), kNoRequest);
  std::raise(SIGUSR2);
  EXPECT_EQ(requests.poll(0), kSave);
  EXPECT_EQ(requests.poll(0), kNoRequest);  // once
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) {
    StopRequests fresh(false, folder_, 0, Timer());
    std::raise(signal);
    EXPECT_EQ(fresh.poll(0), kStopBySignal) << signal;
  }
}

TEST_F(StopRequestsTest, FilesAreHonouredOnceByTheRankThatWatches) {
  const auto touch = [&](const char* name) { std::ofstream(folder_ + "/" + name); };
  touch("STOP");
  touch("SAVE");
  StopRequests blind(false, folder_, 0, Timer());
  EXPECT_EQ(blind.poll(0), kNoRequest);
  StopRequests requests(true, folder_, 0, Timer());
  EXPECT_EQ(requests.poll(0), unsigned{kStopByFile} | unsigned{kSave});
  EXPECT_EQ(requests.poll(0), kNoRequest);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/STOP"));
}

TEST_F(StopRequestsTest, TheWallTimeLeavesRoomForTheMargin) {
  StopRequests requests(true, folder_, 100, Timer());
  EXPECT_EQ(requests.poll(50), kNoRequest);
  EXPECT_EQ(requests.poll(100), kStopByWallTime);
}

TEST(StopRequestsDeathTest, TheSecondInterruptEndsAtOnce) {
  EXPECT_EXIT(
      {
        StopRequests requests(false, "", 0, Timer());
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace llmtrain
