#include "llmtrain/data/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "llmtrain/core/error.hpp"

namespace llmtrain::data {
namespace {

std::vector<index_t> order_of(index_t size, std::uint64_t seed, index_t epoch) {
  const Permutation permutation(size, seed, epoch);
  std::vector<index_t> order(size);
  for (index_t i = 0; i < size; ++i) order[i] = permutation(i);
  return order;
}

// What rank `rank` of `ranks` reads of the global batch at `counter`.
std::vector<SampleAddress> share(Sampler& sampler, index_t counter, index_t batch,
                                 int rank, int ranks) {
  std::vector<SampleAddress> result;
  for (index_t p = rank * batch / ranks; p < (rank + 1) * batch / ranks; ++p) {
    result.push_back(sampler.batch_sample(counter, batch, p));
  }
  return result;
}

TEST(Permutation, IsOneForEverySize) {
  std::vector<index_t> sizes(70);
  std::iota(sizes.begin(), sizes.end(), 1);
  for (const index_t size :
       {127, 128, 129, 251, 256, 1000, 1024, 4096, 4097, 65521, 65536}) {
    sizes.push_back(size);
  }
  for (const index_t size : sizes) {
    for (const index_t epoch : {0, 1, 7}) {
      std::vector<index_t> order = order_of(size, 42, epoch);
      const Permutation permutation(size, 42, epoch);
      for (index_t i = 0; i < size; ++i) ASSERT_EQ(permutation.inverse(order[i]), i);
      std::ranges::sort(order);
      for (index_t i = 0; i < size; ++i) ASSERT_EQ(order[i], i) << "size " << size;
    }
  }
}

TEST(Permutation, LargeSizesSampled) {
  for (const index_t size : {(index_t{1} << 32) - 5, index_t{1} << 32,
                             (index_t{1} << 40) + 1, (index_t{1} << 62) + 3}) {
    const Permutation permutation(size, 1, 2);
    std::set<index_t> seen;
    for (index_t i = 0; i < 1000; ++i) {
      const index_t position = i * (size / 1000);
      const index_t value = permutation(position);
      ASSERT_GE(value, 0);
      ASSERT_LT(value, size);
      ASSERT_EQ(permutation.inverse(value), position);
      ASSERT_TRUE(seen.insert(value).second);
    }
  }
}

TEST(Permutation, DependsOnSeedAndEpoch) {
  EXPECT_EQ(order_of(100, 1, 0), order_of(100, 1, 0));
  EXPECT_NE(order_of(100, 1, 0), order_of(100, 1, 1));
  EXPECT_NE(order_of(100, 1, 0), order_of(100, 2, 0));
  EXPECT_NE(order_of(100, 1, 0), order_of(100, 1, index_t{1} << 32));
}

// Every value comes to every place about equally often: chi-squared with (12 - 1)^2
// degrees of freedom, mean 121, standard deviation 15.6.
TEST(Permutation, LooksUniform) {
  constexpr int kSize = 12, kEpochs = 12000;
  std::vector<int> counts(kSize * kSize);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = order_of(kSize, 3, epoch);
    for (int i = 0; i < kSize; ++i) ++counts[i * kSize + order[i]];
  }
  const double expected = double(kEpochs) / kSize;
  double chi_squared = 0;
  for (const int count : counts) {
    chi_squared += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_squared, 121 + 4 * 15.6);
  EXPECT_GT(chi_squared, 121 - 4 * 15.6);
}

TEST(Sampler, EpochsFollowEachOther) {
  Sampler shuffled(DataOrder::shuffled, 10, 5, 1),
      sequential(DataOrder::sequential, 10, 5, 1);
  for (index_t counter = 0; counter < 35; ++counter) {
    const index_t epoch = counter / 10, place = counter % 10;
    EXPECT_EQ(sequential.sample_at(counter), (SampleAddress{epoch, place}));
    EXPECT_EQ(shuffled.sample_at(counter),
              (SampleAddress{epoch, Permutation(10, 5, epoch)(place)}));
  }
}

TEST(Sampler, RanksShareWhatOneRankReads) {
  constexpr index_t kBatch = 24, kSamples = 100;  // batches straddle epochs
  for (const DataOrder order : {DataOrder::shuffled, DataOrder::sequential}) {
    Sampler sampler(order, kSamples, 9, 1);
    EXPECT_EQ(sampler.required_ranks(), 0);
    for (index_t counter = 0; counter < 300; counter += kBatch) {
      const auto alone = share(sampler, counter, kBatch, 0, 1);
      for (const int ranks : {2, 3, 4, 6, 8}) {
        Sampler of_ranks(order, kSamples, 9, ranks);
        std::vector<SampleAddress> together;
        for (int rank = 0; rank < ranks; ++rank) {
          for (const auto& address : share(of_ranks, counter, kBatch, rank, ranks)) {
            together.push_back(address);
          }
        }
        ASSERT_EQ(together, alone) << ranks << " ranks at " << counter;
      }
    }
  }
}

// Runs over one epoch, changing the number of ranks after every step.
TEST(Sampler, EpochIsReadOnceThoughTheRanksChange) {
  constexpr index_t kBatch = 24, kSamples = 240;
  std::vector<index_t> read;
  int step = 0;
  for (index_t counter = 0; counter < kSamples; counter += kBatch) {
    const int ranks = std::vector{1, 2, 3, 4, 6, 8}[step++ % 6];
    Sampler sampler(DataOrder::shuffled, kSamples, 1, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      for (const auto& a : share(sampler, counter, kBatch, rank, ranks)) {
        read.push_back(a.sample);
      }
    }
  }
  std::ranges::sort(read);
  std::vector<index_t> all(kSamples);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(read, all);
}

TEST(TorchOrder, Randperm) {
  using Order = std::vector<std::uint32_t>;
  EXPECT_EQ(torch_randperm(10, 0), (Order{4, 1, 7, 5, 3, 9, 0, 8, 6, 2}));
  EXPECT_EQ(torch_randperm(16, 45),
            (Order{11, 12, 9, 1, 4, 6, 13, 14, 0, 15, 5, 3, 2, 8, 7, 10}));
  EXPECT_EQ(torch_randperm(7, (1ull << 32) + 5), (Order{1, 0, 4, 2, 6, 5, 3}));
  EXPECT_EQ(torch_randperm(1, 3), Order{0});
  const Order large = torch_randperm(100003, 1234);
  EXPECT_EQ(Order(large.begin(), large.begin() + 5),
            (Order{45100, 6424, 10089, 89368, 45120}));
  EXPECT_EQ(Order(large.end() - 5, large.end()),
            (Order{54047, 33359, 6857, 91405, 54411}));
}

// What each rank's DistributedSampler(shuffle=True, seed) gives in an epoch, from
// PyTorch.
TEST(TorchOrder, DistributedSampler) {
  struct Golden {
    index_t samples;
    std::uint64_t seed;
    index_t epoch;
    std::vector<std::vector<index_t>> ranks;
  };
  const std::vector<Golden> goldens = {
      {10, 0, 0, {{4, 3, 6}, {1, 9, 2}, {7, 0, 4}, {5, 8, 1}}},
      {3, 0, 0, {{2}, {0}, {1}, {2}, {0}, {1}, {2}, {0}}},
      {13, 7, 2, {{2, 10, 4, 3, 0}, {5, 9, 11, 6, 2}, {12, 1, 7, 8, 5}}},
      {2, 9, 1, {{1}, {0}, {1}, {0}, {1}}},
  };
  for (const Golden& golden : goldens) {
    const int ranks = static_cast<int>(golden.ranks.size());
    Sampler sampler(DataOrder::torch, golden.samples, golden.seed, ranks);
    EXPECT_EQ(sampler.required_ranks(), ranks);
    const index_t per_rank = golden.ranks[0].size();
    EXPECT_EQ(sampler.epoch_size(), per_rank * ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<index_t> one_epoch, one_by_one;
      const index_t begin = golden.epoch * sampler.epoch_size();
      for (const auto& a : share(sampler, begin, per_rank * ranks, rank, ranks)) {
        one_epoch.push_back(a.sample);
      }
      for (index_t step = 0; step < per_rank; ++step) {
        one_by_one.push_back(
            sampler.batch_sample(begin + step * ranks, ranks, rank).sample);
      }
      EXPECT_EQ(one_epoch, golden.ranks[rank]);
      EXPECT_EQ(one_by_one, golden.ranks[rank]);
    }
  }
}

// Each rank reads its epochs one after another, also when a batch holds the end of one
// and the start of the next.
TEST(TorchOrder, BatchesStraddleEpochs) {
  constexpr int kRanks = 4;
  constexpr index_t kPerRank = 2;  // epochs have three for each rank
  Sampler sampler(DataOrder::torch, 10, 0, kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<index_t> expected, read;
    for (index_t epoch = 0; epoch < 2; ++epoch) {
      const auto order = torch_randperm(10, epoch);
      for (index_t i = rank; i < 12; i += kRanks) expected.push_back(order[i % 10]);
    }
    for (index_t counter = 0; counter < 24; counter += kRanks * kPerRank) {
      for (const auto& a : share(sampler, counter, kRanks * kPerRank, rank, kRanks)) {
        read.push_back(a.sample);
      }
    }
    EXPECT_EQ(read, expected);
  }
}

TEST(Sampler, Refusals) {
  const auto status = [](auto action) {
    try {
      action();
    } catch (const Error& error) {
      return error.status();
    }
    return Status::finished;
  };
  EXPECT_EQ(status([] { Sampler(DataOrder::shuffled, 0, 1, 1); }), Status::bad_data);
  EXPECT_EQ(status([] { Sampler(DataOrder::torch, 1 << 30, 1, 1); }), Status::usage);
  EXPECT_EQ(status([] { Sampler(DataOrder::shuffled, 9, 1, 1).sample_at(-1); }),
            Status::internal);
}

}  // namespace
}  // namespace llmtrain::data
