#include "llmtrain/ops/reduce.hpp"

#include <omp.h>

#include "llmtrain/ops/elementwise.hpp"
#include "unit/ops/op_test.hpp"

namespace llmtrain::ops {
namespace {

class Reduce : public OpTest {};
INSTANTIATE_TEST_SUITE_P(, Reduce, testing::ValuesIn(kPrecisions), precision_name);
class Elementwise : public OpTest {};
INSTANTIATE_TEST_SUITE_P(, Elementwise, testing::ValuesIn(kPrecisions), precision_name);

TEST_P(Reduce, SumsAndPowers) {
  for (const index_t count : {0, 1, 31, 16384, 16385, 100001}) {
    const Tensor x = random({count}, 1);
    double plain = 0, one = 0, two = 0, three = 0, largest = 0;
    for (const double v : x.values()) {
      plain += v;
      one += std::fabs(v);
      two += v * v;
      three += std::pow(std::fabs(v), 3.0);
      largest = std::max(largest, std::fabs(v));
    }
    // All sums are in double: 1e-12 is the rounding of 100001 additions.
    EXPECT_NEAR(sum(ctx_, x), plain, 1e-12 * (1 + one));
    EXPECT_NEAR(sum_of_powers(ctx_, x, 1.0), one, 1e-12 * (1 + one));
    EXPECT_NEAR(sum_of_powers(ctx_, x, 2.0), two, 1e-12 * (1 + two));
    EXPECT_NEAR(sum_of_powers(ctx_, x, 3.0), three, 1e-12 * (1 + three));
    EXPECT_EQ(sum_of_powers(ctx_, x, INFINITY), largest);
  }
}

TEST_P(Reduce, NanPropagatesFromEveryPlace) {
  for (const index_t where : {0, 5, 16383, 16384, 20000, 20002}) {
    Values values = random_values(20003, 1);
    values[where] = NAN;
    const Tensor x = tensor({20003}, values);
    EXPECT_TRUE(std::isnan(sum(ctx_, x)));
    for (const double p : {1.0, 2.0, 3.0, static_cast<double>(INFINITY)}) {
      EXPECT_TRUE(std::isnan(sum_of_powers(ctx_, x, p))) << where << " " << p;
    }
  }
}

TEST_P(Reduce, ThreadCountDoesNotChangeABit) {
  const Tensor x = random({70000}, 1);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const double one = sum_of_powers(ctx_, x, 2.0);
  omp_set_num_threads(3);
  const double three = sum_of_powers(ctx_, x, 2.0);
  omp_set_num_threads(threads);
  EXPECT_EQ(one, three);
}

TEST_P(Reduce, ErrorsNameTheArgument) {
  expect_error([&] { sum(ctx_, integers({1}, Labels{1})); }, {"sum", "x holds i32"});
  expect_error([&] { sum_of_powers(ctx_, tensor({1}), 0.0); },
               {"sum_of_powers", "p is 0"});
}

TEST_P(Elementwise, FillCopyAdd) {
  const Tensor x = random({3, 67}, 1), y = random({201}, 2);
  const Values total = sum_of(x.values(), y.values());
  add(ctx_, y, x);
  expect_close(y, total, tolerance());
  copy(ctx_, y, x);
  EXPECT_TRUE(same_bits(x, y));
  fill(ctx_, y, 2.5f);
  EXPECT_EQ(y.values(), Values(201, 2.5));
}

TEST_P(Elementwise, ErrorsNameTheArgument) {
  const Tensor a = tensor({3}), b = tensor({4});
  expect_error([&] { copy(ctx_, a, b); }, {"copy", "y has 3 elements"});
  expect_error([&] { add(ctx_, a, b); }, {"add", "y has 3 elements"});
  expect_error([&] { fill(ctx_, integers({1}, Labels{1}), 0.0f); },
               {"fill", "x holds i32"});
}

}  // namespace
}  // namespace llmtrain::ops
