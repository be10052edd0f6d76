// Which elements of a global tensor something holds, and where two holders meet. All of
// resharding is intersections of regions.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "llmtrain/io/state.hpp"

namespace llmtrain::io {

// Elements [begin, end) in row-major order of `box` of a tensor of shape `global`.
struct Region {
  Shape global;
  Box box;
  index_t begin = 0, end = 0;

  index_t count() const { return end - begin; }
};

// What is wrong with it; empty when nothing is: ranks agree, the box lies within the
// tensor, the range within the box, and no product overflows.
std::string fault_of(const Region& region);

// The region of a piece.
Region region_of(const Piece& piece);

// Elements that follow each other in the global row-major order and in the region.
struct Run {
  index_t global;  // the first one's row-major index in the tensor
  index_t local;   // and its place in the region
  index_t count;
};

// The maximal runs of a region, ascending in both orders.
class Runs {
 public:
  explicit Runs(const Region& region);

  // The next run; false at the end.
  bool next(Run& run);
  // Continues with the first run that ends behind `global`.
  void seek(index_t global);

 private:
  index_t start_of(index_t line) const;  // global index of a line's first element

  Region region_;
  int split_ = 0;     // the dimension whose extent, times all below it, is a line
  index_t line_ = 1;  // elements of a line: contiguous in the tensor
  index_t at_ = 0, last_ = -1;  // lines that hold elements of the region
  std::array<index_t, Shape::kMaxRank> stride_{};
};

struct Overlap {
  index_t first, second;  // places in the two regions
  index_t count;
};

// The elements that both regions hold, in ascending order.
class Overlaps {
 public:
  Overlaps(const Region& first, const Region& second);
  bool next(Overlap& overlap);

 private:
  Runs first_, second_;
  Run a_{}, b_{};
  bool more_ = false;
};

// False when no element is in both; found without a walk where boxes tell.
bool overlap(const Region& first, const Region& second);

// [begin, end) of a region's box as at most 2 * rank - 1 boxes of the global tensor, each
// of which is contiguous in the region, in order.
std::vector<Box> boxes_of(const Region& region);

// The row-major index of the first element and one behind the last.
index_t first_index(const Region& region);
index_t last_index(const Region& region);

Shape make_shape(std::span<const index_t> extents);

}  // namespace llmtrain::io
