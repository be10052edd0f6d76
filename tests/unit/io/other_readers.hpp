// h5dump and h5py on a checkpoint of the synthetic state of step 7. Where they are missing
// the tests fail.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>

#include "unit/io/synthetic_state.hpp"

namespace llmtrain::io {

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Exit status of a shell command whose output goes to the file `output`.
inline int run(const std::string& command, const std::string& output) {
  const int status = std::system((command + " > " + output + " 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The bytes of a whole tensor.
inline std::string expected_bytes(TensorKind kind, const SyntheticTensor& tensor) {
  std::string bytes;
  for (index_t i = 0; i < tensor.shape.count(); ++i) {
    const float value = synthetic_value(kind, tensor.name, i, 7);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

// Every tensor of the index, bit for bit. `scratch` is a folder for their output.
inline void expect_h5dump_reads(const std::string& checkpoint,
                                const std::string& scratch) {
  const std::string output = scratch + "/output", raw = scratch + "/raw";
  for (const TensorKind kind : kTensorKinds) {
    for (const SyntheticTensor& tensor : synthetic_tensors()) {
      const std::string name = dataset_path(kind, tensor.name);
      EXPECT_EQ(
          run("h5dump -d " + name + " -b LE -o " + raw + " " + checkpoint + "/index.h5",
              output),
          0)
          << contents(output);
      EXPECT_TRUE(contents(raw) == expected_bytes(kind, tensor)) << name;
    }
  }
}

inline void expect_h5py_reads(const std::string& checkpoint, const std::string& scratch) {
  const std::string output = scratch + "/output", out = scratch + "/tensors";
  std::filesystem::remove_all(out);
  std::filesystem::create_directory(out);
  EXPECT_EQ(run("/usr/bin/python3 " READ_TENSORS " " + checkpoint + " " + out, output), 0)
      << contents(output);
  EXPECT_EQ(std::strtod(contents(output).c_str(), nullptr),
            synthetic_progress(7).last_loss);
  for (const TensorKind kind : kTensorKinds) {
    for (const SyntheticTensor& tensor : synthetic_tensors()) {
      std::string file = cat(name(kind), '.', tensor.name);
      std::replace(file.begin(), file.end(), '/', '.');
      for (int dim = 0; dim < tensor.shape.rank(); ++dim) {
        file += cat(dim == 0 ? '.' : 'x', tensor.shape[dim]);
      }
      EXPECT_TRUE(contents(out + "/" + file) == expected_bytes(kind, tensor)) << file;
    }
  }
}

}  // namespace llmtrain::io
