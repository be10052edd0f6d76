// Files for the tests of the data layer.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "llmtrain/core/error.hpp"
#include "llmtrain/data/dataset.hpp"

namespace llmtrain::data {

// A folder that is gone at the end of the test.
class TempFolder {
 public:
  TempFolder() {
    std::string name = std::filesystem::temp_directory_path() / "llmtrain_data_XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ / name; }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// first, first + 1, ...
template <class T>
std::vector<T> counting(std::size_t count, T first = 0) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

inline std::string shard_header(std::uint32_t magic, std::uint32_t version,
                                std::uint32_t tokens) {
  std::vector<std::uint32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = tokens;
  return bytes_of(header);
}

inline std::string gpt2_shard(const std::vector<std::uint16_t>& ids) {
  return shard_header(20240520, 1, ids.size()) + bytes_of(ids);
}
inline std::string llama_shard(const std::vector<std::uint32_t>& ids) {
  return shard_header(20240801, 7, ids.size()) + bytes_of(ids);
}

inline DataConfig raw_config(const std::string& train) {
  DataConfig config;
  config.format = DataFormat::raw;
  config.train = train;
  return config;
}

inline std::vector<std::int32_t> read_sample(const Dataset& dataset, index_t index) {
  std::vector<std::int32_t> tokens(dataset.seq_len() + 1);
  dataset.read(tokens, index);
  return tokens;
}

// What `action` throws.
template <class Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {Status::finished, "nothing was thrown"};
}

inline void expect_error(const Error& error, Status status,
                         const std::vector<std::string>& parts) {
  EXPECT_EQ(error.status(), status) << error.what();
  for (const std::string& part : parts) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << "no \"" << part << "\" in: " << error.what();
  }
}

}  // namespace llmtrain::data
