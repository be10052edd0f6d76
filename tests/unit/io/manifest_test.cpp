#include "io/manifest.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "io/digest.hpp"
#include "io/step_folders.hpp"
#include "llmtrain/core/error.hpp"

namespace llmtrain::io {
namespace {

std::string refusal(const std::string& text) {
  try {
    Manifest::parse(text, "M");
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_data);
    return error.what();
  }
  return "";
}

// With a last line that agrees.
std::string sealed(const std::string& lines) {
  const std::string text = "# llmtrain checkpoint, format 1\n" + lines;
  return text + "# manifest " + digest_of(text) + "\n";
}

const std::string kDigest(32, 'a');
const std::string kIndexLines = "# 7 bytes\n" + kDigest + "  index.h5\n";

TEST(Manifest, RoundTrip) {
  const Manifest manifest{{{"index.h5", 12, digest_of("x")},
                           {"shard-00003-of-00008.h5", 1234567890123, digest_of("")}}};
  const Manifest read = Manifest::parse(manifest.text(), "M");
  EXPECT_EQ(read.text(), manifest.text());
  EXPECT_EQ(read.bytes(), 1234567890135);
  EXPECT_EQ(digest_of(""), "99aa06d3014798d86001c324468d497f");  // of xxh128sum
}

TEST(Manifest, EveryCutAndEveryChangedByteIsRefused) {
  const std::string text = sealed(kIndexLines);
  ASSERT_EQ(refusal(text), "");
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_NE(refusal(changed), "") << "byte " << i;
    EXPECT_NE(refusal(text.substr(0, i)), "") << "cut at " << i;
  }
  EXPECT_NE(refusal(text + "\n"), "");
}

TEST(Manifest, OnlyExpectedNames) {
  for (const char* name : {"../index.h5", "/etc/passwd", "shard-1-of-2.h5", "index.h5 ",
                           "shard-00000-of-00001.h5/x", "latest"}) {
    const std::string lines = kIndexLines + "# 1 bytes\n" + kDigest + "  " + name + "\n";
    EXPECT_NE(refusal(sealed(lines)).find("not a file's size or digest"),
              std::string::npos)
        << name;
  }
  EXPECT_NE(refusal(sealed(kIndexLines + kIndexLines)).find("twice"), std::string::npos);
  EXPECT_NE(refusal(sealed("")).find("names no index.h5"), std::string::npos);
  EXPECT_NE(refusal(sealed("# -1 bytes\n" + kDigest + "  index.h5\n")), "");
  EXPECT_NE(refusal(sealed("# 99999999999999999999 bytes\n" + kDigest + "  index.h5\n")),
            "");
}

TEST(StepFolders, NamesAreExact) {
  EXPECT_EQ(step_name(1000), "step-0000001000");
  EXPECT_EQ(parse_step("step-0000001000"), 1000);
  for (const char* name :
       {"step-1000", "step-00000010000", "xstep-0000001000", "step-0000001000x",
        "step-000000100a", "step--000001000", "step-0000001000\n", ""}) {
    EXPECT_EQ(parse_step(name), std::nullopt) << name;
  }
}

TEST(StepFolders, Retention) {
  using Steps = std::vector<std::int64_t>;
  EXPECT_EQ(steps_to_remove({10, 20, 30, 40}, 2, 0), (Steps{10, 20}));
  EXPECT_EQ(steps_to_remove({40, 10, 30, 20}, 1, 20), (Steps{10, 30}));
  EXPECT_EQ(steps_to_remove({10, 20}, 2, 0), Steps{});
  EXPECT_EQ(steps_to_remove({}, 2, 0), Steps{});
  EXPECT_EQ(steps_to_remove({0, 5, 10}, 1, 10), (Steps{5}));
}

}  // namespace
}  // namespace llmtrain::io
