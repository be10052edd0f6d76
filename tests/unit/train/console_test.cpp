#include "llmtrain/train/console.hpp"

#include <gtest/gtest.h>

#include "llmtrain/train/generator.hpp"

namespace llmtrain {
namespace {

TEST(Console, Durations) {
  EXPECT_EQ(duration(0), "00:00:00");
  EXPECT_EQ(duration(3661.9), "01:01:01");
  EXPECT_EQ(duration(90061), "1-01:01:01");
}

TEST(Console, Memory) {
  EXPECT_EQ(memory(1 << 20), "1.0 MiB");
  EXPECT_EQ(memory(index_t{3} << 29), "1.50 GiB");
}

TEST(Console, StepLineHasStableColumns) {
  const auto line = [](index_t step, double loss) {
    return step_line({.step = step,
                      .total_steps = 1000,
                      .loss = loss,
                      .gradient_norm = 1,
                      .learning_rate = 1e-3,
                      .tokens_per_second = 12345,
                      .milliseconds = 10,
                      .peak_share = 0.5,
                      .seconds_left = 61});
  };
  EXPECT_EQ(line(1, 1.5).find("loss"), line(1000, 11.5).find("loss"));
  EXPECT_NE(line(1, 1.5).find(" 50.0 % of peak"), std::string::npos);
  EXPECT_NE(line(1, 1.5).find("left 00:01:01"), std::string::npos);
}

TEST(Printable, ControlCharactersNeverPass) {
  EXPECT_EQ(printable("plain\ttext\n"), "plain\ttext\n");
  EXPECT_EQ(printable("\x1b[31mred\x07"), "?[31mred?");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "??2J");  // C1 control as UTF-8
  EXPECT_EQ(printable("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82"),
            "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82");
  EXPECT_EQ(printable("\xc3"), "?");            // cut short
  EXPECT_EQ(printable("\xc0\xaf"), "??");       // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "???");  // surrogate
  EXPECT_EQ(printable("\xff\x7f"), "??");
}

}  // namespace
}  // namespace llmtrain
