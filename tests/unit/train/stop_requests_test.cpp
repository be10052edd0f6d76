#include "llmtrain/train/stop_requests.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

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

// A signal to the process reaches poll() soon.
unsigned poll_after(StopRequests& requests, int signal) {
  kill(getpid(), signal);
  for (int i = 0; i < 500; ++i) {
    if (const unsigned found = requests.poll(0)) return found;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return kNoRequest;
}

TEST_F(StopRequestsTest, SignalsAreHeardByPoll) {
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) {
    StopRequests requests;
    requests.begin(false, folder_, 0, Timer());
    EXPECT_EQ(requests.poll(0), kNoRequest);
    EXPECT_EQ(poll_after(requests, SIGUSR2), kSaveBySignal);
    EXPECT_EQ(requests.poll(0), kNoRequest);  // once
    EXPECT_EQ(poll_after(requests, signal), kStopBySignal) << signal;
    EXPECT_EQ(requests.poll(0), kStopBySignal);  // a stop stays
  }
}

TEST_F(StopRequestsTest, FilesAreHonouredOnceByTheRankThatWatches) {
  const auto touch = [&](const char* name) { std::ofstream(folder_ + "/" + name); };
  touch("STOP");
  touch("SAVE");
  StopRequests blind;
  blind.begin(false, folder_, 0, Timer());
  EXPECT_EQ(blind.poll(0), kNoRequest);
  StopRequests requests;
  requests.begin(true, folder_, 0, Timer());
  EXPECT_EQ(requests.poll(0), unsigned{kStopByFile} | unsigned{kSaveByFile});
  EXPECT_EQ(requests.poll(0), kNoRequest);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/STOP"));
}

TEST_F(StopRequestsTest, TheWallTimeLeavesRoomForTheMargin) {
  StopRequests requests;
  requests.begin(true, folder_, 100, Timer());
  EXPECT_EQ(requests.poll(50), kNoRequest);
  EXPECT_EQ(requests.poll(100), kStopByWallTime);
}

TEST(StopRequestsDeathTest, TheSecondInterruptEndsAtOnce) {
  EXPECT_EXIT(
      {
        StopRequests requests;
        requests.begin(false, "", 0, Timer());
        poll_after(requests, SIGINT);
        kill(getpid(), SIGINT);
        std::this_thread::sleep_for(std::chrono::seconds(10));
      },
      testing::ExitedWithCode(130), "");
}

TEST(StopRequestsDeathTest, BeforeARunBeginsASignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        StopRequests requests;
        kill(getpid(), SIGTERM);
        std::this_thread::sleep_for(std::chrono::seconds(10));
      },
      testing::ExitedWithCode(128 + SIGTERM), "");
}

}  // namespace
}  // namespace llmtrain
