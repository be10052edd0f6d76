// Every input that open_datasets() refuses, and what it says.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "data_files.hpp"

namespace llmtrain::data {
namespace {

constexpr index_t kSeqLen = 16;
constexpr index_t kVocabulary = 300;

const std::string kGood = bytes_of(counting<std::uint16_t>(100));

struct BadFile {
  const char* name;
  DataFormat format;
  int token_bytes;
  std::string content;
  std::vector<std::string> message;
};

std::string swapped_header() {
  return shard_header(__builtin_bswap32(20240520), __builtin_bswap32(1),
                      __builtin_bswap32(100)) +
         kGood;
}

std::vector<BadFile> bad_files() {
  using enum DataFormat;
  const auto gpt2 = [](std::uint32_t tokens) {
    return shard_header(20240520, 1, tokens);
  };
  return {
      {"empty_text", text, 2, "", {"is empty"}},
      {"empty_shard", llmc, 2, "", {"is empty"}},
      {"empty_raw", raw, 2, "", {"is empty"}},
      {"short_text", text, 2, "fifteen bytes.", {"15 tokens", "seq_len + 1 = 17"}},
      {"short_shard", llmc, 2, gpt2_shard({1, 2}), {"has 2 tokens", "at least", "17"}},
      {"no_tokens", llmc, 2, gpt2(0), {"has 0 tokens"}},
      {"short_raw", raw, 2, kGood.substr(0, 32), {"has 16 tokens", "17"}},
      {"half_header", llmc, 2, gpt2(9).substr(0, 1000), {"1000 bytes", "header of 1024"}},
      {"other_magic",
       llmc,
       2,
       shard_header(7, 1, 100) + kGood,
       {"magic 7;", "20240520 version 1", "20240801 version 7", "data.format = raw"}},
      {"swapped",
       llmc,
       2,
       swapped_header(),
       {"magic 20240520 with its bytes swapped", "little-endian"}},
      {"evaluation",
       llmc,
       2,
       shard_header(20240522, 1, 100) + kGood,
       {"magic 20240522", "evaluation set"}},
      {"model", llmc, 2, shard_header(20240326, 3, 100) + kGood, {"GPT-2 checkpoint"}},
      {"version",
       llmc,
       2,
       shard_header(20240520, 2, 100) + kGood,
       {"version 2 of magic 20240520", "version 1"}},
      {"llama_version",
       llmc,
       2,
       shard_header(20240801, 1, 50) + kGood,
       {"version 1 of magic 20240801", "version 7"}},
      {"cut",
       llmc,
       2,
       gpt2(101) + kGood,
       {"has 1224 bytes", "says 101 tokens", "exactly 1226 bytes", "incomplete"}},
      {"appended", llmc, 2, gpt2(99) + kGood, {"says 99 tokens", "appended"}},
      {"negative_count", llmc, 2, gpt2(-1) + kGood, {"says 4294967295 tokens"}},
      {"odd", raw, 2, kGood + 'x', {"has 201 bytes", "data.token_bytes = 2"}},
      {"odd_wide", raw, 4, kGood + "xy", {"has 202 bytes", "data.token_bytes = 4"}},
      {"shard_as_raw",
       raw,
       2,
       gpt2(100) + kGood,
       {"header of a GPT-2 shard", "data.format = llmc"}},
  };
}

TEST(Refusals, Contents) {
  const TempFolder folder;
  for (const BadFile& bad : bad_files()) {
    SCOPED_TRACE(bad.name);
    DataConfig config;
    config.format = bad.format;
    config.token_bytes = bad.token_bytes;
    config.train = folder.write(bad.name, bad.content);
    std::vector<std::string> message = bad.message;
    message.push_back("data.train: " + config.train + ": ");
    message.push_back("allowed: ");
    message.push_back("hint: ");
    expect_error(error_of([&] { open_datasets(config, kSeqLen, kVocabulary); }),
                 Status::bad_data, message);
  }
}

struct BadPath {
  const char* pattern;
  Status status;
  std::vector<std::string> message;
};

TEST(Refusals, Paths) {
  const TempFolder folder;
  folder.write("good.bin", kGood);
  ASSERT_EQ(::mkdir((folder / "folder").c_str(), 0755), 0);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0644), 0);
  ASSERT_EQ(::symlink("loop", (folder / "loop").c_str()), 0);
  ASSERT_EQ(::symlink("nowhere", (folder / "dangling").c_str()), 0);
  const std::vector<BadPath> paths = {
      {"missing.bin", Status::bad_data, {"nothing matches", "such as dangling"}},
      {"*.tokens", Status::bad_data, {"nothing matches", "has 5 entries"}},
      {"not/here*.bin",
       Status::bad_data,
       {"nothing matches", "No such file or directory"}},
      {"folder", Status::bad_data, {"is a directory", "folder/*"}},
      {"folder/*", Status::bad_data, {"nothing matches", "is empty"}},
      {"pipe", Status::bad_data, {"is a pipe", "a regular file"}},
      {"loop", Status::io, {"cannot open", "symbolic links"}},
      {"dangling", Status::io, {"cannot open", "No such file"}},
  };
  for (const BadPath& bad : paths) {
    SCOPED_TRACE(bad.pattern);
    const std::string pattern = folder / bad.pattern;
    std::vector<std::string> message = bad.message;
    message.push_back("data.train: " + pattern + ": ");
    expect_error(
        error_of([&] { open_datasets(raw_config(pattern), kSeqLen, kVocabulary); }),
        bad.status, message);
  }
  expect_error(error_of([] { open_datasets(raw_config("/dev/null"), 16, 300); }),
               Status::bad_data, {"is a device"});
}

TEST(Refusals, UnreadableFile) {
  const TempFolder folder;
  const auto path = folder.write("a.bin", kGood);
  ASSERT_EQ(::chmod((folder / "").c_str(), 0755), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  const bool is_root = ::geteuid() == 0;  // who may read everything
  if (is_root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const Error error =
      error_of([&] { open_datasets(raw_config(path), kSeqLen, kVocabulary); });
  if (is_root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  expect_error(error, Status::io, {path, "cannot open", "Permission denied"});
}

TEST(Refusals, TheSameFileTwice) {
  const TempFolder folder;
  const auto path = folder.write("a.bin", kGood);
  ASSERT_EQ(::symlink("a.bin", (folder / "b.bin").c_str()), 0);
  ASSERT_EQ(::link(path.c_str(), (folder / "c.bin").c_str()), 0);
  expect_error(
      error_of([&] { open_datasets(raw_config(folder / "*.bin"), kSeqLen, 300); }),
      Status::bad_data,
      {"b.bin: the same file as " + path, "c.bin: the same file as " + path});
  DataConfig config = raw_config(path);
  config.validation = path;
  expect_error(error_of([&] { open_datasets(config, kSeqLen, kVocabulary); }),
               Status::bad_data, {"the same file as", "in training or in validation"});
}

TEST(Refusals, ShardsOfTwoTokenizers) {
  const TempFolder folder;
  folder.write("a.bin", gpt2_shard(counting<std::uint16_t>(20)));
  folder.write("b.bin", llama_shard(counting<std::uint32_t>(20)));
  DataConfig config;
  config.format = DataFormat::llmc;
  config.train = folder / "*.bin";
  expect_error(error_of([&] { open_datasets(config, kSeqLen, kVocabulary); }),
               Status::bad_data, {"b.bin: ids of 4 bytes", "a.bin has 2"});
}

TEST(Refusals, AllFaultsAtOnce) {
  const TempFolder folder;
  folder.write("a.bin", "");
  folder.write("b.bin", kGood);
  folder.write("c.bin", kGood + "x");
  ASSERT_EQ(::symlink("loop.bin", (folder / "loop.bin").c_str()), 0);
  DataConfig config = raw_config(folder / "*.bin");
  config.validation = folder / "missing";
  const Error error = error_of([&] { open_datasets(config, kSeqLen, kVocabulary); });
  expect_error(error, Status::bad_data,
               {"a.bin: is empty", "c.bin: has 201 bytes", "loop.bin: cannot open",
                "data.validation: " + config.validation + ": nothing matches"});
  const std::string text = error.what();
  EXPECT_EQ(std::ranges::count(text, '\n'), 3) << text;
}

TEST(Refusals, WhatIsToBeMendedDecidesTheStatus) {
  const TempFolder folder;
  ASSERT_EQ(::symlink("a.bin", (folder / "a.bin").c_str()), 0);
  const auto status = [&] {
    return error_of([&] { open_datasets(raw_config(folder / "*.bin"), kSeqLen, 300); })
        .status();
  };
  EXPECT_EQ(status(), Status::io);
  folder.write("b.bin", "");
  EXPECT_EQ(status(), Status::bad_data);
}

TEST(Refusals, ConfigurationAgainstItselfAndTheModel) {
  const TempFolder folder;
  const auto path = folder.write("a.bin", kGood);
  struct Case {
    std::function<void(DataConfig&)> change;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](DataConfig& c) { c.train = ""; }, "data.train is empty"},
      {[](DataConfig& c) { c.token_bytes = 3; }, "data.token_bytes = 3; allowed: 2, 4"},
      {[](DataConfig& c) { c.validation_fraction = 1; }, "validation_fraction = 1"},
      {[](DataConfig& c) {
         c.validation_fraction = std::numeric_limits<double>::quiet_NaN();
       },
       "validation_fraction = "},
      {[](DataConfig& c) { c.validation_fraction = 0.5, c.validation = "x"; }, "both"},
      {[](DataConfig& c) { c.end_of_text = 256; }, "data.end_of_text = 256"},
      {[](DataConfig& c) { c.end_of_text = -2; }, "data.end_of_text = -2"},
      {[](DataConfig& c) { c.document_mask = true; }, "needs data.end_of_text"},
      {[](DataConfig& c) { c.format = DataFormat::text; }, "text has 257 ids"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.message);
    DataConfig config = raw_config(path);
    each.change(config);
    expect_error(error_of([&] { open_datasets(config, kSeqLen, 256); }), Status::usage,
                 {each.message});
  }
}

TEST(Refusals, NothingLeftToTrainOn) {
  const TempFolder folder;
  DataConfig config = raw_config(folder.write("a.bin", kGood));
  config.validation_fraction = 0.1;
  expect_error(error_of([&] { open_datasets(config, 99, kVocabulary); }),
               Status::bad_data, {"holds out 1 of 1 samples"});
}

}  // namespace
}  // namespace llmtrain::data
