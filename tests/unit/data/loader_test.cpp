#include "llmtrain/data/loader.hpp"

#include <unistd.h>

#include "data_files.hpp"

namespace llmtrain::data {
namespace {

constexpr index_t kSeqLen = 4;
constexpr index_t kSamples = 50;
constexpr std::uint64_t kSeed = 11;

class LoaderTest : public testing::Test {
 protected:
  LoaderTest() {
    path_ =
        folder_.write("a.bin", bytes_of(counting<std::uint16_t>(kSamples * kSeqLen + 1)));
    dataset_ = open_datasets(raw_config(path_), kSeqLen, 300).train;
  }

  static Sampler sampler(DataOrder order = DataOrder::shuffled, int ranks = 1) {
    return Sampler(order, kSamples, kSeed, ranks);
  }

  TempFolder folder_;
  std::string path_;
  Dataset dataset_;
};

void expect_equal(const StepBatches& a, const StepBatches& b) {
  EXPECT_EQ(a.counter, b.counter);
  EXPECT_EQ(a.valid_tokens, b.valid_tokens);
  ASSERT_EQ(a.micro_batches.size(), b.micro_batches.size());
  for (std::size_t i = 0; i < a.micro_batches.size(); ++i) {
    EXPECT_EQ(a.micro_batches[i].tokens, b.micro_batches[i].tokens);
    EXPECT_EQ(a.micro_batches[i].labels, b.micro_batches[i].labels);
    EXPECT_EQ(a.micro_batches[i].positions, b.micro_batches[i].positions);
  }
}

TEST_F(LoaderTest, GivesWhatIsReadDirectly) {
  for (const DataOrder order : kDataOrders) {
    for (const int ranks : {1, 2, 4}) {
      for (int rank = 0; rank < ranks; ++rank) {
        const Share share{
            .rank = rank, .ranks = ranks, .global_batch = 8, .micro_batch = 2};
        Sampler direct = sampler(order, ranks);
        Loader loader(dataset_, sampler(order, ranks), share, 0);
        for (index_t counter = 0; counter < 3 * kSamples; counter += 8) {
          expect_equal(loader.next_step(counter),
                       read_step(dataset_, direct, share, counter));
        }
      }
    }
  }
}

TEST_F(LoaderTest, MicroBatchesHoldTheSamplersSamplesAndPositions) {
  const Share share{.rank = 1, .ranks = 2, .global_batch = 8, .micro_batch = 2};
  Loader loader(dataset_, sampler(), share, 48);  // straddles two epochs
  const StepBatches step = loader.next_step(48);
  Sampler expected = sampler();
  ASSERT_EQ(step.micro_batches.size(), 2u);
  EXPECT_EQ(step.valid_tokens, 4 * kSeqLen);
  for (index_t i = 0; i < 4; ++i) {
    const Batch& batch = step.micro_batches[i / 2];
    const index_t sample = expected.sample_at(48 + 4 + i).sample;
    EXPECT_EQ(batch.positions[i % 2], 4 + i);
    EXPECT_EQ(batch.tokens[i % 2 * kSeqLen], sample * kSeqLen);
    EXPECT_EQ(batch.labels[i % 2 * kSeqLen], sample * kSeqLen + 1);
  }
}

TEST_F(LoaderTest, StartsAtAnyCounterAndGoesWhereItIsSent) {
  const Share share{.global_batch = 6, .micro_batch = 3};
  Sampler direct = sampler();
  Loader loader(dataset_, sampler(), share, 30);
  for (const index_t counter : {30, 36, 42, 0, 6, 100, 31, 37, 37, 43}) {
    expect_equal(loader.next_step(counter), read_step(dataset_, direct, share, counter));
  }
}

TEST_F(LoaderTest, CanBeDestroyedAtAnyTime) {
  const Share share{.global_batch = 40, .micro_batch = 10};
  for (int i = 0; i < 200; ++i) {
    Loader loader(dataset_, sampler(), share, 0);
    for (int step = 0; step < i % 4; ++step) loader.next_step(step * 40);
    if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50 * i));
  }
}

TEST_F(LoaderTest, ErrorComesWithItsStepAndStays) {
  const Share share{.global_batch = 5, .micro_batch = 5};
  ASSERT_EQ(::truncate(path_.c_str(), 2 * kSeqLen * 12), 0);  // samples 0 to 10 are whole
  Loader loader(dataset_, sampler(DataOrder::sequential), share, 0);
  loader.next_step(0);
  loader.next_step(5);
  for (int attempt = 0; attempt < 2; ++attempt) {
    expect_error(error_of([&] { loader.next_step(10); }), Status::io,
                 {path_, "ends at byte 96 (token 48)"});
  }
  EXPECT_EQ(loader.next_step(5).counter, 5);
}

TEST_F(LoaderTest, IdOutsideTheVocabularyReachesTheCaller) {
  const Dataset narrow = open_datasets(raw_config(path_), kSeqLen, 100).train;
  const Share share{.global_batch = 10, .micro_batch = 10};
  Loader loader(narrow, sampler(DataOrder::sequential), share, 20);
  expect_error(error_of([&] { loader.next_step(20); }), Status::bad_data,
               {path_, "token 100 has the id 100"});
}

TEST_F(LoaderTest, SharesThatDoNotDivideAreABug) {
  const Share share{.ranks = 2, .global_batch = 10, .micro_batch = 2};
  EXPECT_EQ(error_of([&] { Loader(dataset_, sampler(), share, 0); }).status(),
            Status::internal);
}

}  // namespace
}  // namespace llmtrain::data
