#include "llmtrain/layers/parameter.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "llmtrain/core/philox.hpp"

namespace llmtrain {

namespace {

// Groups start on a cache line, so that every fused matrix is aligned.
constexpr index_t kAlignment = 16;

// Box-Muller in double: element 2k is the cosine branch of a pair of uniforms, 2k + 1 the
// sine.
double normal_at(PhiloxKey key, index_t element) {
  const PhiloxBlock draws = philox_at(key, static_cast<std::uint64_t>(element) / 4, 0, 0);
  const std::size_t pair = static_cast<std::size_t>(element) % 4 / 2 * 2;
  const double radius = std::sqrt(-2.0 * std::log(uniform_float(draws[pair])));
  const double angle = 2.0 * std::numbers::pi * uniform_float(draws[pair + 1]);
  return radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

double uniform_at(PhiloxKey key, index_t element) {
  const PhiloxBlock draws = philox_at(key, static_cast<std::uint64_t>(element) / 4, 0, 0);
  return uniform_float(draws[static_cast<std::size_t>(element) % 4]);
}

float initial_value(const ParameterSpec& spec, PhiloxKey key, index_t element) {
  switch (spec.initializer.kind) {
    case Initializer::Kind::zeros:
      return 0.0f;
    case Initializer::Kind::ones:
      return 1.0f;
    case Initializer::Kind::normal:
      return static_cast<float>(spec.initializer.scale * normal_at(key, element));
    case Initializer::Kind::kaiming_uniform: {
      const double fan_in = static_cast<double>(spec.shape[spec.shape.rank() - 1]);
      const double bound = spec.initializer.scale * std::sqrt(3.0 / fan_in);
      return static_cast<float>(bound * (2.0 * uniform_at(key, element) - 1.0));
    }
  }
  return 0.0f;
}

}  // namespace

TensorView Parameter::in(const TensorView& flat, const char* what) const {
  require(set_ != nullptr, "a parameter that was not declared");
  require(flat.count() >= set_->size(), "", what, " of ", set_->name(),
          " are not acquired");
  return flat.flat(set_->first_offsets_[first_], shape_.count()).as(shape_);
}

TensorView Parameter::weight() const { return in(set_->weights_, "weights"); }
TensorView Parameter::gradient() const { return in(set_->gradients_, "gradients"); }

index_t ParameterRow::global_element(index_t element) const {
  const Shape& global = spec.shape;
  const index_t below = global.count() / std::max<index_t>(1, global[0]);
  const index_t box_below = box.count() / std::max<index_t>(1, box[0]);
  const index_t first = box_offset.rank() > 1 ? box_offset[1] : 0;
  return (box_offset[0] + element / box_below) * below + first + element % box_below;
}

// This rank's box of a row.
ParameterRow ParameterSet::place(ParameterSpec spec) const {
  ParameterRow row;
  row.box_offset = spec.shape.origin();
  row.box = spec.shape;
  index_t rows = std::max(spec.shape[0], spec.padded_rows);
  const index_t pieces = spec.split == Split::none ? 1
                         : spec.pieces > 0 ? std::min<index_t>(spec.pieces, tensor_.size)
                                           : tensor_.size;
  const index_t piece = tensor_.rank * pieces / tensor_.size;
  row.first_copy = tensor_.rank == piece * tensor_.size / pieces;
  row.first_copy = row.first_copy && !spec.pipeline_copy;
  if (spec.split != Split::none) {
    row.partial_copies = tensor_.size / static_cast<int>(pieces);
  }
  const auto cut = [&](index_t extent) {
    require(extent % pieces == 0, "", spec.name, " of extent ", extent,
            " cannot be cut into ", pieces, " pieces");
    return extent / pieces;
  };
  if (spec.split == Split::row) {
    const index_t width = cut(spec.shape[1]);
    row.box_offset = {0, piece * width};
    row.box = {spec.shape[0], width};
  } else {
    rows = cut(rows);
    const index_t begin = std::min(piece * rows, spec.shape[0]);
    row.box_offset = row.box_offset.with_rows(begin);
    row.box = row.box.with_rows(std::min(rows, spec.shape[0] - begin));
  }
  row.stored_count = rows * (row.box.rank() > 1 ? row.box[1] : 1);
  row.spec = std::move(spec);
  return row;
}

Parameter ParameterSet::declare(std::vector<ParameterSpec> adjacent) {
  require(!sealed_ && !adjacent.empty(), "declare() after seal(), or without rows");
  Parameter handle;
  handle.set_ = this;
  handle.first_ = rows_.size();
  group_starts_.push_back(rows_.size());
  index_t leading = 0;
  const bool decayed = adjacent.front().decayed;
  for (ParameterSpec& spec : adjacent) {
    require(spec.shape.rank() >= 1 && spec.shape.rank() <= 2, "", spec.name, " of shape ",
            spec.shape.text(), ": a row is a matrix or a vector");
    const ParameterRow& row = rows_.emplace_back(place(std::move(spec)));
    const Shape& first = rows_[handle.first_].box;
    require(row.box.with_rows(0) == first.with_rows(0) && row.spec.decayed == decayed,
            "rows beside ", row.spec.name, " do not form one matrix");
    leading += row.stored_count / (row.box.rank() > 1 ? row.box[1] : 1);
  }
  handle.shape_ = rows_[handle.first_].box.with_rows(leading);
  return handle;
}

void ParameterSet::seal() {
  require(!sealed_, "seal() twice");
  sealed_ = true;
  first_offsets_.resize(rows_.size());
  for (const bool decayed : {true, false}) {
    for (std::size_t group = 0; group < group_starts_.size(); ++group) {
      const std::size_t begin = group_starts_[group];
      const std::size_t end =
          group + 1 < group_starts_.size() ? group_starts_[group + 1] : rows_.size();
      if (rows_[begin].spec.decayed != decayed) continue;
      size_ = round_up(size_, kAlignment);
      for (std::size_t row = begin; row < end; ++row) {
        rows_[row].offset = first_offsets_[row] = size_;
        size_ += rows_[row].stored_count;
      }
    }
    if (decayed) decayed_size_ = size_;
  }
  std::sort(rows_.begin(), rows_.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
}

index_t ParameterSet::parameter_count() const {
  index_t count = 0;
  for (const ParameterRow& row : rows_) count += row.spec.shape.count();
  return count;
}

void ParameterSet::initialize(TensorView out, index_t begin, std::uint64_t seed) const {
  if (out.is_meta()) return;
  with_type(out.dtype(), [&]<class T>(TypeTag<T>) {
    T* const values = out.data<T>();
    std::fill_n(values, out.count(), T{});
    for (const ParameterRow& row : rows_) {
      const PhiloxKey key = philox_key(seed, "init", row.spec.name);
      const index_t first = std::max(row.offset, begin);
      const index_t last = std::min(row.offset + row.box.count(), begin + out.count());
#pragma omp parallel for schedule(static)
      for (index_t at = first; at < last; ++at) {
        values[at - begin] = from_float<T>(
            initial_value(row.spec, key, row.global_element(at - row.offset)));
      }
    }
  });
}

}  // namespace llmtrain
