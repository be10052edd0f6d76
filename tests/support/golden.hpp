// Reads datasets of the golden files as doubles or ints.
#pragma once

#include <hdf5.h>

#include <string>
#include <vector>

#include "llmtrain/core/error.hpp"

namespace llmtrain {

class Golden {
 public:
  explicit Golden(const std::string& path)
      : file_(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)) {
    require(file_ >= 0, "cannot open ", path);
  }
  ~Golden() { H5Fclose(file_); }
  Golden(const Golden&) = delete;
  Golden& operator=(const Golden&) = delete;

  std::vector<double> doubles(const std::string& name) const {
    return read<double>(name, H5T_NATIVE_DOUBLE);
  }
  std::vector<int> ints(const std::string& name) const {
    return read<int>(name, H5T_NATIVE_INT);
  }

 private:
  template <class T>
  std::vector<T> read(const std::string& name, hid_t type) const {
    const hid_t set = H5Dopen2(file_, name.c_str(), H5P_DEFAULT);
    require(set >= 0, "no dataset ", name);
    const hid_t space = H5Dget_space(set);
    std::vector<T> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    const herr_t read = H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    H5Sclose(space);
    H5Dclose(set);
    require(read >= 0, "cannot read ", name);
    return values;
  }

  hid_t file_;
};

}  // namespace llmtrain
