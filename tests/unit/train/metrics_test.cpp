#include "llmtrain/train/metrics.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "llmtrain/core/error.hpp"

namespace llmtrain {
namespace {

class Metrics : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / "llmtrain-metrics-XXXXXX";
    std::string name = folder_;
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ / "metrics.csv"; }
  std::string text() const {
    std::ostringstream out;
    out << std::ifstream(path()).rdbuf();
    return out.str();
  }
  std::filesystem::path folder_;
};

TEST_F(Metrics, ResumingCutsWhatCameAfterTheCheckpoint) {
  {
    MetricsFile file(path(), 0);
    for (index_t step = 1; step <= 4; ++step) {
      file.write({.step = step, .tokens = 10 * step, .loss = 0.1 * double(step)});
    }
  }
  {
    MetricsFile file(path(), 2);
    file.write({.step = 3, .tokens = 30, .loss = 7, .validation_loss = 1.5});
  }
  EXPECT_EQ(text(),
            "step,tokens,loss,gradient_norm,learning_rate,tokens_per_second,milliseconds,"
            "validation_loss\n"
            "1,10,0.1,0,0,0,0,\n"
            "2,20,0.2,0,0,0,0,\n"
            "3,30,7,0,0,0,0,1.5\n");
}

TEST_F(Metrics, StartingAnewForgetsTheOldRun) {
  { MetricsFile(path(), 0).write({.step = 1}); }
  { MetricsFile(path(), 0).write({.step = 1, .tokens = 5}); }
  EXPECT_EQ(text().find("1,0,"), std::string::npos);
  EXPECT_NE(text().find("1,5,"), std::string::npos);
}

TEST_F(Metrics, DoublesReadBackExactly) {
  const double loss = 1.0 / 3.0;
  MetricsFile(path(), 0).write({.step = 1, .loss = loss});
  const std::string all = text();
  const auto at = all.find("\n1,0,") + 5;
  EXPECT_EQ(std::stod(all.substr(at)), loss);
}

TEST_F(Metrics, AFolderThatIsMissingIsAnError) {
  try {
    MetricsFile file(path() + "/no/metrics.csv", 0);
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::io);
  }
}

}  // namespace
}  // namespace llmtrain
