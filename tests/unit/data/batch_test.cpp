#include "llmtrain/data/batch.hpp"

#include "data_files.hpp"
#include "llmtrain/ops/cross_entropy.hpp"

namespace llmtrain::data {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(Dataset, SamplesStayWithinTheirFileAndFollowTheSortedNames) {
  const TempFolder folder;
  folder.write("b.bin", bytes_of(counting<std::uint16_t>(9, 100)));  // 2 samples of 4 + 1
  folder.write("a.bin", bytes_of(counting<std::uint16_t>(8, 0)));    // 1, and a tail
  folder.write("c.bin", bytes_of(counting<std::uint16_t>(5, 200)));  // 1
  const Dataset train = open_datasets(raw_config(folder / "*.bin"), 4, 300).train;
  ASSERT_EQ(train.samples(), 4);
  EXPECT_EQ(train.tokens(), 16);
  EXPECT_EQ(read_sample(train, 0), (Ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(read_sample(train, 1), (Ids{100, 101, 102, 103, 104}));
  EXPECT_EQ(read_sample(train, 2), (Ids{104, 105, 106, 107, 108}));
  EXPECT_EQ(read_sample(train, 3), (Ids{200, 201, 202, 203, 204}));
}

TEST(Dataset, NameWithWildcardCharactersIsTakenAsItIs) {
  const TempFolder folder;
  const auto path = folder.write("a[1].bin", bytes_of(counting<std::uint16_t>(5)));
  folder.write("a1.bin", bytes_of(counting<std::uint16_t>(9)));
  EXPECT_EQ(open_datasets(raw_config(path), 4, 300).train.samples(), 1);
}

TEST(Dataset, LastFractionIsHeldOut) {
  const TempFolder folder;
  folder.write("a.bin", bytes_of(counting<std::uint16_t>(21)));
  folder.write("b.bin", bytes_of(counting<std::uint16_t>(21, 100)));
  DataConfig config = raw_config(folder / "*.bin");
  const Dataset all = open_datasets(config, 4, 300).train;
  config.validation_fraction = 0.7;
  const Datasets sets = open_datasets(config, 4, 300);
  ASSERT_EQ(all.samples(), 10);
  ASSERT_EQ(sets.train.samples(), 3);
  ASSERT_EQ(sets.validation.samples(), 7);
  for (index_t i = 0; i < 10; ++i) {
    EXPECT_EQ(read_sample(all, i),
              i < 3 ? read_sample(sets.train, i) : read_sample(sets.validation, i - 3));
  }
  EXPECT_NE(sets.train.fingerprint(), all.fingerprint());
  EXPECT_NE(sets.train.fingerprint(), sets.validation.fingerprint());
  config.validation_fraction = 0.01;
  EXPECT_EQ(open_datasets(config, 4, 300).validation.samples(), 1);
}

TEST(Dataset, FingerprintIsThatOfTheSamples) {
  const TempFolder folder;
  folder.write("a.bin", bytes_of(counting<std::uint16_t>(12)));
  const auto fingerprint = [&](index_t seq_len) {
    return open_datasets(raw_config(folder / "*.bin"), seq_len, 300).train.fingerprint();
  };
  const std::string original = fingerprint(4);
  EXPECT_EQ(fingerprint(4), original);
  EXPECT_NE(fingerprint(5), original);  // two samples as well
  folder.write("b.bin", bytes_of(counting<std::uint16_t>(50)));
  EXPECT_NE(fingerprint(4), original);
}

// Documents end with 9: [1 2 9] [3 9] [9] [4 5 | 6].
Dataset documents(const TempFolder& folder, bool mask) {
  folder.write("a.bin", bytes_of<std::uint16_t>({1, 2, 9, 3, 9, 9, 4, 5, 6}));
  DataConfig config = raw_config(folder / "a.bin");
  config.document_mask = mask;
  config.end_of_text = 9;
  return open_datasets(config, 8, 10).train;
}

TEST(Batch, DocumentMask) {
  const TempFolder folder;
  const std::vector<index_t> samples{0};
  const Batch batch = read_batch(documents(folder, true), samples, 1, 5);
  EXPECT_EQ(batch.shape(), (Shape{1, 8}));
  EXPECT_EQ(batch.tokens, (Ids{1, 2, 9, 3, 9, 9, 4, 5}));
  EXPECT_EQ(batch.labels, (Ids{2, 9, -1, 9, -1, -1, 5, 6}));
  EXPECT_EQ(batch.document_starts, (Ids{0, 0, 0, 3, 3, 5, 6, 6}));
  EXPECT_EQ(batch.valid_tokens, 5);
  EXPECT_EQ(batch.positions, std::vector<std::uint32_t>{5});
}

TEST(Batch, WithoutMaskEveryLabelCounts) {
  const TempFolder folder;
  const std::vector<index_t> samples{0};
  const Batch batch = read_batch(documents(folder, false), samples, 1, 0);
  EXPECT_EQ(batch.labels, (Ids{2, 9, 3, 9, 9, 4, 5, 6}));
  EXPECT_TRUE(batch.document_starts.empty());
  EXPECT_EQ(batch.valid_tokens, 8);
}

TEST(Batch, TextEndsItsDocumentsByItself) {
  const TempFolder folder;
  DataConfig config;
  config.train = folder.write("a.txt", "abcd");
  config.document_mask = true;
  const Dataset train = open_datasets(config, 4, 257).train;
  EXPECT_EQ(train.document_end(), 256);
  EXPECT_EQ(read_sample(train, 0), (Ids{97, 98, 99, 100, 256}));
}

TEST(Batch, PaddingIsIgnored) {
  const TempFolder folder;
  const std::vector<index_t> samples{0};
  const Batch batch = read_batch(documents(folder, true), samples, 3, 2);
  EXPECT_EQ(batch.shape(), (Shape{3, 8}));
  EXPECT_EQ(batch.valid_tokens, 5);
  EXPECT_EQ(batch.positions, (std::vector<std::uint32_t>{2, 3, 4}));
  for (std::size_t t = 8; t < 24; ++t) {
    EXPECT_EQ(batch.tokens[t], 0);
    EXPECT_EQ(batch.labels[t], ops::kIgnoredLabel);
    EXPECT_EQ(batch.document_starts[t], 0);
  }
}

TEST(Validation, EachSampleOnceForAnyRanks) {
  const TempFolder folder;
  folder.write("a.bin", bytes_of(counting<std::uint16_t>(14 * 4 + 1)));
  const Dataset dataset = open_datasets(raw_config(folder / "a.bin"), 4, 300).train;
  ASSERT_EQ(dataset.samples(), 14);
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const index_t micro_batch : {1, 2, 3}) {
      Ids first_tokens;
      index_t valid_tokens = 0;
      Share share{.rank = 0, .ranks = ranks, .micro_batch = micro_batch};
      const index_t rounds = validation_rounds(dataset, share);
      EXPECT_EQ(rounds, divide_up(14, ranks * micro_batch));
      for (index_t round = 0; round < rounds; ++round) {
        for (share.rank = 0; share.rank < ranks; ++share.rank) {
          const Batch batch = read_validation_batch(dataset, share, round);
          EXPECT_EQ(batch.sequences, micro_batch);
          valid_tokens += batch.valid_tokens;
          for (index_t i = 0; i < micro_batch; ++i) {
            if (batch.labels[i * 4] >= 0) first_tokens.push_back(batch.tokens[i * 4]);
          }
        }
      }
      Ids expected(14);
      for (int i = 0; i < 14; ++i) expected[i] = 4 * i;
      EXPECT_EQ(first_tokens, expected) << ranks << " ranks, " << micro_batch;
      EXPECT_EQ(valid_tokens, 14 * 4);
    }
  }
}

}  // namespace
}  // namespace llmtrain::data
