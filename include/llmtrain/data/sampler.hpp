// Which sample comes when: pure functions of a running counter, no files.
//
// The sample counter runs on for ever; epoch = counter / epoch_size. The order within an
// epoch is a function of (seed, epoch), so there is no state to store beyond the counter,
// and the samples of a global batch do not depend on how many ranks share it.
#pragma once

#include <cstdint>
#include <vector>

#include "llmtrain/config/data_config.hpp"
#include "llmtrain/core/philox.hpp"
#include "llmtrain/core/types.hpp"

namespace llmtrain::data {

// A permutation of [0, size) that is computed, not stored: a Feistel network whose round
// function is Philox, on the next power of four, walked until it falls into the range.
// Black, Rogaway: "Ciphers with arbitrary finite domains", CT-RSA 2002.
class Permutation {
 public:
  Permutation(index_t size, std::uint64_t seed, index_t epoch);
  index_t operator()(index_t position) const;
  index_t inverse(index_t value) const;

 private:
  std::uint64_t encrypt(std::uint64_t value) const;
  std::uint64_t decrypt(std::uint64_t value) const;
  std::uint32_t round_bits(std::uint32_t half, std::uint32_t round) const;

  std::uint64_t size_;
  std::uint64_t epoch_;
  PhiloxKey key_;
  int half_bits_;
};

// torch.randperm(size) after manual_seed(seed) on the CPU; size below 2^32 / 20.
std::vector<std::uint32_t> torch_randperm(index_t size, std::uint64_t seed);

struct SampleAddress {
  index_t epoch = 0;
  index_t sample = 0;  // of the dataset
  bool operator==(const SampleAddress&) const = default;
};

// Not for several threads at once: the order of the current epoch is kept.
class Sampler {
 public:
  // `ranks`: the data-parallel size, which only the order `torch` looks at. Throws
  // Error(bad_data) without samples, Error(usage) where torch's order has too many.
  Sampler(DataOrder order, index_t samples, std::uint64_t seed, int ranks);

  // The samples of one epoch: all, and for `torch` the repeats that pad to the rank
  // count.
  index_t epoch_size() const { return epoch_size_; }
  // The rank count that the order depends on, 0 when on none: a resumed run must have it.
  int required_ranks() const { return order_ == DataOrder::torch ? ranks_ : 0; }

  // The sample that the counter stands for. A global batch of G samples at counter c is
  // samples c .. c + G - 1, in every order; it may straddle epochs.
  SampleAddress sample_at(index_t counter);

  // The sample at `position` in [0, batch) of the global batch of `batch` samples that
  // starts at `counter`, where rank r of P has positions [r * batch / P, (r + 1) * batch
  // / P). That is sample_at(counter + position), except that `torch` deals its samples
  // out to the ranks one by one.
  SampleAddress batch_sample(index_t counter, index_t batch, index_t position);

 private:
  DataOrder order_;
  index_t samples_;
  std::uint64_t seed_;
  int ranks_;
  index_t epoch_size_;
  index_t shuffled_epoch_ = -1;  // the epoch of torch_order_
  std::vector<std::uint32_t> torch_order_;
};

}  // namespace llmtrain::data
