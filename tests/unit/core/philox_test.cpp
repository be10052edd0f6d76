#include "llmtrain/core/philox.hpp"

#include <gtest/gtest.h>

namespace llmtrain {
namespace {

// Known answers of the generator's authors (Random123, kat_vectors).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, KeysDependOnEveryPart) {
  const auto key = [](auto... parts) {
    const PhiloxKey k = philox_key(parts...);
    return std::uint64_t{k.high} << 32 | k.low;
  };
  EXPECT_EQ(key(1, "init", "a"), key(1, "init", "a"));
  EXPECT_NE(key(1, "init", "a"), key(2, "init", "a"));
  EXPECT_NE(key(1, "init", "a"), key(1, "dropout", "a"));
  EXPECT_NE(key(1, "init", "a"), key(1, "init", "b"));
  EXPECT_NE(key(1, "ab", "c"), key(1, "a", "bc"));
}

TEST(Philox, UniformIsInsideTheOpenInterval) {
  EXPECT_GT(uniform_float(0), 0.0f);
  EXPECT_LT(uniform_float(~0u), 1.0f);
}

}  // namespace
}  // namespace llmtrain
