#include "llmtrain/data/token_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "data_files.hpp"

namespace llmtrain::data {
namespace {

std::vector<std::int32_t> read(const TokenFile& file, index_t begin, index_t count,
                               index_t vocabulary) {
  std::vector<std::int32_t> tokens(count);
  file.read(tokens, begin, vocabulary);
  return tokens;
}

int descriptor_of(const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own descriptor is listed too
    if (std::filesystem::read_symlink(entry.path(), gone) == path) {
      return std::stoi(entry.path().filename());
    }
  }
  return -1;
}

TEST(TokenFile, TextIsBytesThenEndOfText) {
  const TempFolder folder;
  const TokenFile file(folder.write("a.txt", "A\xff\n"), DataFormat::text, 2);
  EXPECT_EQ(file.tokens(), 4);
  EXPECT_EQ(file.end_of_text(), 256);
  EXPECT_EQ(read(file, 0, 4, 257), (std::vector{65, 255, 10, 256}));
  EXPECT_EQ(read(file, 1, 2, 257), (std::vector{255, 10}));
  EXPECT_EQ(read(file, 3, 1, 257), (std::vector{256}));
}

TEST(TokenFile, Gpt2Shard) {
  const TempFolder folder;
  const TokenFile file(folder.write("a.bin", gpt2_shard({50256, 1, 2, 65535})),
                       DataFormat::llmc, 2);
  EXPECT_EQ(file.tokens(), 4);
  EXPECT_EQ(file.end_of_text(), 50256);
  EXPECT_EQ(read(file, 0, 4, 65536), (std::vector{50256, 1, 2, 65535}));
}

TEST(TokenFile, LlamaShard) {
  const TempFolder folder;
  const TokenFile file(folder.write("a.bin", llama_shard({128000, 70000, 3})),
                       DataFormat::llmc, 2);
  EXPECT_EQ(file.tokens(), 3);
  EXPECT_EQ(file.end_of_text(), 128000);
  EXPECT_EQ(read(file, 1, 2, 128256), (std::vector{70000, 3}));
}

TEST(TokenFile, RawOfBothWidths) {
  const TempFolder folder;
  const TokenFile narrow(folder.write("2.bin", bytes_of<std::uint16_t>({7, 65535})),
                         DataFormat::raw, 2);
  EXPECT_EQ(read(narrow, 0, 2, 65536), (std::vector{7, 65535}));
  const TokenFile wide(folder.write("4.bin", bytes_of<std::uint32_t>({7, 65536})),
                       DataFormat::raw, 4);
  EXPECT_EQ(read(wide, 0, 2, 65537), (std::vector{7, 65536}));
  EXPECT_EQ(wide.end_of_text(), -1);
}

TEST(TokenFile, IdOutsideTheVocabularyIsNamed) {
  const TempFolder folder;
  const auto path = folder.write("a.bin", bytes_of<std::uint16_t>({1, 2, 63, 64, 99}));
  const TokenFile file(path, DataFormat::raw, 2);
  EXPECT_EQ(read(file, 1, 2, 64), (std::vector{2, 63}));
  expect_error(error_of([&] { read(file, 1, 4, 64); }), Status::bad_data,
               {path, "token 3 has the id 64", "0 to 63", "vocabulary of 64"});
  expect_error(error_of([&] { read(file, 2, 2, 64); }), Status::bad_data,
               {"token 3 has the id 64"});
  const TokenFile wide(folder.write("b.bin", bytes_of<std::uint32_t>({0xffffffff})),
                       DataFormat::raw, 4);
  expect_error(error_of([&] { read(wide, 0, 1, 64); }), Status::bad_data,
               {"token 0 has the id 4294967295", "data.token_bytes is not 4"});
}

TEST(TokenFile, OffsetsBeyondFourGibibytes) {
  const TempFolder folder;
  const auto path = folder.write("a.bin", "");
  const index_t tokens = (index_t{5} << 30) / 2;
  ASSERT_EQ(::truncate(path.c_str(), tokens * 2), 0);  // sparse: takes no space
  const int descriptor = ::open(path.c_str(), O_WRONLY);
  const std::uint16_t last[2] = {11, 12};
  ASSERT_EQ(::pwrite(descriptor, last, sizeof last, tokens * 2 - 4), 4);
  ::close(descriptor);
  const TokenFile file(path, DataFormat::raw, 2);
  EXPECT_EQ(file.tokens(), tokens);
  EXPECT_EQ(read(file, tokens - 3, 3, 64), (std::vector{0, 11, 12}));
}

TEST(TokenFile, FileCutUnderTheRun) {
  const TempFolder folder;
  const auto path = folder.write("a.bin", gpt2_shard(counting<std::uint16_t>(1000)));
  const TokenFile file(path, DataFormat::llmc, 2);
  ASSERT_EQ(::truncate(path.c_str(), 1024 + 2 * 600), 0);
  EXPECT_EQ(read(file, 590, 10, 1000).back(), 599);
  expect_error(error_of([&] { read(file, 590, 20, 1000); }), Status::io,
               {path, "ends at byte 2224 (token 600)", "had 3024 bytes"});
}

TEST(TokenFile, FailingReadIsAnError) {
  const TempFolder folder;
  const auto path = folder.write("a.bin", bytes_of<std::uint16_t>({1, 2, 3}));
  const TokenFile file(path, DataFormat::raw, 2);
  // A directory in place of the file's descriptor makes pread fail with EISDIR.
  const int directory = ::open((folder / "").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_GE(::dup2(directory, descriptor_of(path)), 0);
  ::close(directory);
  expect_error(error_of([&] { read(file, 1, 2, 64); }), Status::io,
               {path, "cannot read token 1", "Is a directory"});
}

TEST(TokenFile, FingerprintSeesNameSizeAndContent) {
  const TempFolder folder;
  const auto fingerprint = [&](const std::string& name, const std::string& content) {
    return TokenFile(folder.write(name, content), DataFormat::text, 2).fingerprint();
  };
  const std::string content(100000, 'x');
  const std::string original = fingerprint("a", content);
  EXPECT_EQ(original.size(), 32u);
  EXPECT_EQ(fingerprint("a", content), original);
  EXPECT_NE(fingerprint("b", content), original);
  EXPECT_NE(fingerprint("a", content + 'x'), original);
  for (const std::size_t position : {0, 50000, 99999}) {
    std::string changed = content;
    changed[position] = 'y';
    EXPECT_NE(fingerprint("a", changed), original) << position;
  }
}

}  // namespace
}  // namespace llmtrain::data
