// Extents of a tensor, row-major, at most four dimensions.
#pragma once

#include <array>
#include <initializer_list>
#include <string>

#include "llmtrain/core/error.hpp"
#include "llmtrain/core/types.hpp"

namespace llmtrain {

class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<index_t> extents) {
    require(extents.size() <= kMaxRank, "a shape has at most 4 dimensions");
    for (const index_t extent : extents) {
      require(extent >= 0, "negative extent ", extent);
      extents_[rank_++] = extent;
    }
  }

  int rank() const { return rank_; }
  index_t operator[](int dim) const { return extents_[dim]; }
  // The number of elements; 1 for a scalar (rank 0).
  index_t count() const {
    index_t product = 1;
    for (int dim = 0; dim < rank_; ++dim) product *= extents_[dim];
    return product;
  }
  // This shape with the first extent replaced.
  Shape with_rows(index_t rows) const {
    Shape result = *this;
    result.extents_[0] = rows;
    return result;
  }
  // The index of the first element: as many dimensions, all zero.
  Shape origin() const {
    Shape result = *this;
    result.extents_ = {};
    return result;
  }
  bool operator==(const Shape&) const = default;

  std::string text() const {
    std::string out = "[";
    for (int dim = 0; dim < rank_; ++dim) {
      out += (dim ? ", " : "") + std::to_string(extents_[dim]);
    }
    return out + "]";
  }

 private:
  std::array<index_t, kMaxRank> extents_{};
  int rank_ = 0;
};

}  // namespace llmtrain
