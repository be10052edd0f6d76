// Which checkpoints a run keeps.
#include <gtest/gtest.h>

#include <filesystem>

#include "io/step_folders.hpp"
#include "llmtrain/io/checkpoint.hpp"
#include "unit/io/synthetic_state.hpp"

namespace llmtrain::io {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<std::int64_t>;

class Retention : public testing::Test {
 protected:
  CheckpointStore make_store() { return {*self_, folder_.path(), config_, log_}; }
  static SaveReport save(CheckpointStore& store, std::int64_t step) {
    Held held = cut({1, 1}, 0, Replicas::once);
    fill(held, step);
    return store.save(held.pieces, synthetic_progress(step), synthetic_provenance());
  }
  Steps steps() const { return list_steps(folder_.path()); }
  void damage(std::int64_t step) const {
    fs::resize_file(fs::path(folder_.path()) / step_name(step) / "index.h5", 100);
  }

  std::unique_ptr<Communicator> self_ = make_self_communicator();
  SharedFolder folder_{*self_};
  CheckpointConfig config_;
  Log log_{true};
};

TEST_F(Retention, NewestAndMilestones) {
  config_.keep = 3;
  config_.keep_every = 40;
  CheckpointStore store = make_store();
  for (std::int64_t step = 10; step <= 120; step += 10) {
    EXPECT_TRUE(save(store, step).saved);
    EXPECT_LE(steps().size(), 3u + static_cast<std::size_t>(step / 40));
  }
  EXPECT_EQ(steps(), (Steps{40, 80, 100, 110, 120}));
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    EXPECT_NE(entry.path().filename().string()[0], '.') << entry.path();
  }
}

TEST_F(Retention, TheOneResumedFromStaysUntilEnoughNewerOnesExist) {
  config_.keep = 2;
  {
    CheckpointStore store = make_store();
    for (const std::int64_t step : {10, 20, 30}) save(store, step);
  }
  damage(30);
  CheckpointStore store = make_store();
  EXPECT_EQ(fs::path(*store.find()).filename(), step_name(20));
  save(store, 25);
  EXPECT_EQ(steps(), (Steps{20, 25, 30}));  // 30 is damaged and not counted
  save(store, 30);                          // replaces it
  EXPECT_EQ(steps(), (Steps{25, 30}));
  save(store, 35);
  EXPECT_EQ(steps(), (Steps{30, 35}));
}

TEST_F(Retention, CheckpointsOfAnotherHistoryAreLeftAlone) {
  config_.keep = 1;
  {
    CheckpointStore store = make_store();
    save(store, 100);
  }
  config_.resume = "none";
  CheckpointStore store = make_store();
  EXPECT_EQ(store.find(), std::nullopt);
  save(store, 10);
  save(store, 20);
  EXPECT_EQ(steps(), (Steps{20, 100}));
  bool warned = false;
  for (const std::string& warning : log_.warnings()) {
    warned = warned || warning.find("not of this run's history") != std::string::npos;
  }
  EXPECT_TRUE(warned);
}

TEST_F(Retention, IncompleteOnesPushNothingOut) {
  config_.keep = 2;
  {
    CheckpointStore store = make_store();
    for (const std::int64_t step : {10, 20}) save(store, step);
  }
  damage(10);
  CheckpointStore store = make_store();
  EXPECT_TRUE(store.find().has_value());
  save(store, 30);
  EXPECT_EQ(steps(), (Steps{10, 20, 30}));
}

TEST_F(Retention, SavingTheSameStepAgain) {
  CheckpointStore store = make_store();
  const SaveReport first = save(store, 10);
  const fs::path index = fs::path(first.path) / "index.h5";
  const auto written = fs::last_write_time(index);
  const SaveReport again = save(store, 10);
  EXPECT_TRUE(again.saved);
  EXPECT_EQ(again.bytes, first.bytes);
  EXPECT_EQ(fs::last_write_time(index), written);

  Held held = cut({1, 1}, 0, Replicas::once);
  fill(held, 11);
  Progress other = synthetic_progress(10);
  other.last_loss = 5;  // of another run
  EXPECT_TRUE(store.save(held.pieces, other, {}).saved);
  Held read = cut({1, 1}, 0, Replicas::once);
  store.load(first.path, read.pieces);
  EXPECT_EQ(wrong_elements(read, 11), 0);
}

// A link in a victim is removed, what it points to stays.
TEST_F(Retention, DeletionFollowsNoLinks) {
  config_.keep = 1;
  CheckpointStore store = make_store();
  save(store, 10);
  const SharedFolder elsewhere(*self_);
  const fs::path precious = fs::path(elsewhere.path()) / "precious";
  fs::create_directory(precious);
  fs::create_directory(precious / "inside");
  fs::create_directory_symlink(precious,
                               fs::path(folder_.path()) / step_name(10) / "link");
  save(store, 20);
  EXPECT_EQ(steps(), (Steps{20}));
  EXPECT_TRUE(fs::exists(precious / "inside"));
}

}  // namespace
}  // namespace llmtrain::io
