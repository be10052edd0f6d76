#include "io/region.hpp"

#include <algorithm>

namespace llmtrain::io {

namespace {

// Far above any tensor; keeps every product below 2^63.
constexpr index_t kMaxElements = index_t{1} << 48;

bool countable(const Shape& shape) {
  index_t product = 1;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (shape[dim] < 0 || shape[dim] > kMaxElements) return false;
    if (shape[dim] > 0 && product > kMaxElements / shape[dim]) return false;
    product *= shape[dim];
  }
  return true;
}

bool same(const Box& a, const Box& b) {
  return a.offset == b.offset && a.extent == b.extent;
}

bool disjoint(const Box& a, const Box& b) {
  for (int dim = 0; dim < a.extent.rank(); ++dim) {
    if (a.offset[dim] >= b.offset[dim] + b.extent[dim]) return true;
    if (b.offset[dim] >= a.offset[dim] + a.extent[dim]) return true;
  }
  return false;
}

}  // namespace

std::string fault_of(const Region& region) {
  const Shape &global = region.global, &offset = region.box.offset,
              &extent = region.box.extent;
  if (global.rank() < 1 || offset.rank() != global.rank() ||
      extent.rank() != global.rank()) {
    return cat("shape ", global.text(), " and box ", offset.text(), " + ", extent.text(),
               " differ in rank");
  }
  if (!countable(global)) return cat("shape ", global.text(), " is too large");
  for (int dim = 0; dim < global.rank(); ++dim) {
    if (extent[dim] > global[dim] || offset[dim] > global[dim] - extent[dim]) {
      return cat("box ", offset.text(), " + ", extent.text(), " leaves the shape ",
                 global.text());
    }
  }
  if (region.begin < 0 || region.end < region.begin || region.end > extent.count()) {
    return cat("elements ", region.begin, " to ", region.end, " leave the box of ",
               extent.count());
  }
  return "";
}

Region region_of(const Piece& piece) {
  return {piece.global, piece.box, piece.begin, piece.begin + piece.data.count()};
}

Runs::Runs(const Region& region) : region_(region) {
  const Shape &global = region_.global, &extent = region_.box.extent;
  index_t stride = 1;
  for (int dim = global.rank() - 1; dim >= 0; --dim) {
    stride_[static_cast<std::size_t>(dim)] = stride;
    stride *= global[dim];
  }
  split_ = global.rank() - 1;
  line_ = extent[split_];
  while (split_ > 0 && extent[split_] == global[split_]) line_ *= extent[--split_];
  if (region_.count() == 0) return;
  at_ = region_.begin / line_;
  last_ = (region_.end - 1) / line_;
}

index_t Runs::start_of(index_t line) const {
  const Box& box = region_.box;
  index_t start = box.offset[split_] * stride_[static_cast<std::size_t>(split_)];
  for (int dim = split_ - 1; dim >= 0; --dim) {
    start += (box.offset[dim] + line % box.extent[dim]) *
             stride_[static_cast<std::size_t>(dim)];
    line /= box.extent[dim];
  }
  return start;
}

bool Runs::next(Run& run) {
  if (at_ > last_) return false;
  const index_t begin = std::max(region_.begin, at_ * line_);
  const index_t end = std::min(region_.end, (at_ + 1) * line_);
  run = {start_of(at_) + (begin - at_ * line_), begin - region_.begin, end - begin};
  ++at_;
  return true;
}

void Runs::seek(index_t global) {
  index_t low = at_, high = last_ + 1;
  while (low < high) {
    const index_t middle = low + (high - low) / 2;
    if (start_of(middle) + line_ > global) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  at_ = low;
}

Overlaps::Overlaps(const Region& first, const Region& second)
    : first_(first), second_(second) {
  if (first.count() == 0 || second.count() == 0) return;
  const index_t start = std::max(first_index(first), first_index(second));
  first_.seek(start);
  second_.seek(start);
  more_ = first_.next(a_) && second_.next(b_);
}

bool Overlaps::next(Overlap& overlap) {
  while (more_) {
    const index_t a_end = a_.global + a_.count, b_end = b_.global + b_.count;
    const index_t begin = std::max(a_.global, b_.global), end = std::min(a_end, b_end);
    overlap = {a_.local + (begin - a_.global), b_.local + (begin - b_.global),
               end - begin};
    if (a_end < b_end) {
      first_.seek(b_.global);
      more_ = first_.next(a_);
    } else {
      second_.seek(a_.global);
      more_ = second_.next(b_);
    }
    if (begin < end) return true;
  }
  return false;
}

bool overlap(const Region& first, const Region& second) {
  if (first.count() == 0 || second.count() == 0) return false;
  if (same(first.box, second.box)) {
    return first.begin < second.end && second.begin < first.end;
  }
  if (disjoint(first.box, second.box)) return false;
  Overlap found;
  return Overlaps(first, second).next(found);
}

std::vector<Box> boxes_of(const Region& region) {
  std::vector<Box> boxes;
  const Box& whole = region.box;
  const int rank = whole.extent.rank();
  // From `at`, the largest box that starts there and is contiguous in the region's box.
  for (index_t at = region.begin; at < region.end;) {
    std::array<index_t, Shape::kMaxRank> offset{}, extent{};
    index_t below = whole.extent.count();
    index_t rest = at;
    int dim = 0;
    for (; dim < rank; ++dim) {
      below /= whole.extent[dim];
      const auto d = static_cast<std::size_t>(dim);
      offset[d] = rest / below;
      extent[d] = 1;
      rest %= below;
      if (rest == 0 && (region.end - at) / below >= 1) break;
    }
    const auto split = static_cast<std::size_t>(dim);
    extent[split] =
        std::min(whole.extent[dim] - offset[split], (region.end - at) / below);
    at += extent[split] * below;
    for (int inner = dim + 1; inner < rank; ++inner) {
      extent[static_cast<std::size_t>(inner)] = whole.extent[inner];
    }
    for (int d = 0; d < rank; ++d) offset[static_cast<std::size_t>(d)] += whole.offset[d];
    const auto size = static_cast<std::size_t>(rank);
    boxes.push_back(
        {make_shape({offset.data(), size}), make_shape({extent.data(), size})});
  }
  return boxes;
}

index_t first_index(const Region& region) {
  Run run{};
  Runs(region).next(run);
  return run.global;
}

index_t last_index(const Region& region) {
  if (region.count() == 0) return 0;
  Region tail = region;
  tail.begin = region.end - 1;
  return first_index(tail) + 1;
}

Shape make_shape(std::span<const index_t> extents) {
  switch (extents.size()) {
    case 0:
      return {};
    case 1:
      return {extents[0]};
    case 2:
      return {extents[0], extents[1]};
    case 3:
      return {extents[0], extents[1], extents[2]};
    case 4:
      return {extents[0], extents[1], extents[2], extents[3]};
    default:
      fail(Status::bad_data, "a tensor of ", extents.size(), " dimensions");
  }
}

}  // namespace llmtrain::io
