#include "llmtrain/data/sampler.hpp"

#include <limits>
#include <numeric>
#include <random>

#include "llmtrain/core/error.hpp"

namespace llmtrain::data {
namespace {

// From here on torch.randperm draws in another way.
constexpr index_t kTorchSampleLimit = std::numeric_limits<std::uint32_t>::max() / 20;

}  // namespace

std::vector<std::uint32_t> torch_randperm(index_t size, std::uint64_t seed) {
  require(size >= 0 && size < kTorchSampleLimit, "torch_randperm of ", size);
  std::mt19937 generator(static_cast<std::uint32_t>(seed));
  std::vector<std::uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0u);
  for (index_t i = 0; i + 1 < size; ++i) {
    std::swap(order[i], order[i + generator() % (size - i)]);
  }
  return order;
}

Sampler::Sampler(DataOrder order, index_t samples, std::uint64_t seed, int ranks)
    : order_(order), samples_(samples), seed_(seed), ranks_(ranks), epoch_size_(samples) {
  require(ranks >= 1, "sampler for ", ranks, " ranks");
  if (samples < 1) fail(Status::bad_data, "there are no samples to train on");
  if (order != DataOrder::torch) return;
  epoch_size_ = round_up(samples, ranks);
  if (samples >= kTorchSampleLimit) {
    fail(Status::usage, "data.order = torch with ", samples, " samples; allowed: below ",
         kTorchSampleLimit, "; hint: data.order = shuffled");
  }
}

SampleAddress Sampler::sample_at(index_t counter) {
  require(counter >= 0, "sample counter ", counter);
  const index_t epoch = counter / epoch_size_, place = counter % epoch_size_;
  switch (order_) {
    case DataOrder::shuffled:
      return {epoch, Permutation(samples_, seed_, epoch)(place)};
    case DataOrder::sequential:
      return {epoch, place};
    case DataOrder::torch:
      if (epoch != shuffled_epoch_) {
        torch_order_ = torch_randperm(samples_, seed_ + epoch);
        shuffled_epoch_ = epoch;
      }
      return {epoch, torch_order_[place % samples_]};
  }
  fail(Status::internal, "unknown order");
}

SampleAddress Sampler::batch_sample(index_t counter, index_t batch, index_t position) {
  require(position >= 0 && position < batch, "position ", position, " of ", batch);
  if (order_ != DataOrder::torch) return sample_at(counter + position);
  require(batch % ranks_ == 0 && counter % ranks_ == 0, "order torch: batch ", batch,
          " at sample ", counter, " for ", ranks_, " ranks");
  const index_t share = batch / ranks_;
  const index_t rank = position / share, turn = position % share;
  return sample_at(counter + turn * ranks_ + rank);
}

}  // namespace llmtrain::data
