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

Parameter ParameterSet::declare(std::vector<ParameterSpec> adjacent) {
  require(!sealed_ && !adjacent.empty(), "declare() after seal(), or without rows");
  Parameter handle;
  handle.set_ = this;
  handle.first_ = rows_.size();
  group_starts_.push_back(rows_.size());
  const Shape& first = adjacent.front().shape;
  index_t leading = 0;
  for (ParameterSpec& spec : adjacent) {
    require(spec.shape.rank() >= 1 && spec.shape.with_rows(0) == first.with_rows(0) &&
                spec.decayed == adjacent.front().decayed,
            "rows beside ", spec.name, " do not form one matrix");
    leading += spec.padded_rows > 0 ? spec.padded_rows : spec.shape[0];
    rows_.push_back({std::move(spec), 0});
  }
  handle.shape_ = first.with_rows(leading);
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
        size_ += rows_[row].spec.stored_count();
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
      const index_t last =
          std::min(row.offset + row.spec.shape.count(), begin + out.count());
#pragma omp parallel for schedule(static)
      for (index_t at = first; at < last; ++at) {
        values[at - begin] = from_float<T>(initial_value(row.spec, key, at - row.offset));
      }
    }
  });
}

}  // namespace llmtrain
