// The balanced Feistel network and its walk: see the reference in the header.
#include <algorithm>
#include <bit>
#include <utility>

#include "llmtrain/core/error.hpp"
#include "llmtrain/data/sampler.hpp"

namespace llmtrain::data {
namespace {

// Four already pass for random; more make up for the tiny halves of small sets.
constexpr std::uint32_t kRounds = 8;

}  // namespace

Permutation::Permutation(index_t size, std::uint64_t seed, index_t epoch)
    : size_(size),
      epoch_(epoch),
      key_(philox_key(seed, "order", "samples")),
      half_bits_(1) {
  require(size >= 1 && epoch >= 0, "permutation of ", size, " in epoch ", epoch);
  half_bits_ = std::max(1, (static_cast<int>(std::bit_width(size_ - 1)) + 1) / 2);
}

index_t Permutation::operator()(index_t position) const {
  auto value = static_cast<std::uint64_t>(position);
  require(value < size_, "position ", position, " of ", size_);
  do value = encrypt(value);
  while (value >= size_);
  return static_cast<index_t>(value);
}

index_t Permutation::inverse(index_t value) const {
  auto position = static_cast<std::uint64_t>(value);
  require(position < size_, "value ", value, " of ", size_);
  do position = decrypt(position);
  while (position >= size_);
  return static_cast<index_t>(position);
}

std::uint64_t Permutation::encrypt(std::uint64_t value) const {
  auto left = static_cast<std::uint32_t>(value >> half_bits_);
  auto right = static_cast<std::uint32_t>(value ^ (std::uint64_t{left} << half_bits_));
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    left ^= round_bits(right, round);
    std::swap(left, right);
  }
  return std::uint64_t{left} << half_bits_ | right;
}

std::uint64_t Permutation::decrypt(std::uint64_t value) const {
  auto left = static_cast<std::uint32_t>(value >> half_bits_);
  auto right = static_cast<std::uint32_t>(value ^ (std::uint64_t{left} << half_bits_));
  for (std::uint32_t round = kRounds; round-- > 0;) {
    std::swap(left, right);
    left ^= round_bits(right, round);
  }
  return std::uint64_t{left} << half_bits_ | right;
}

std::uint32_t Permutation::round_bits(std::uint32_t half, std::uint32_t round) const {
  const PhiloxBlock block = philox({half, round, static_cast<std::uint32_t>(epoch_),
                                    static_cast<std::uint32_t>(epoch_ >> 32)},
                                   key_);
  return block[0] >> (32 - half_bits_);
}

}  // namespace llmtrain::data
