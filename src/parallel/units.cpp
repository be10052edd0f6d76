#include "llmtrain/parallel/units.hpp"

#include <algorithm>

#include "llmtrain/ops/elementwise.hpp"

namespace llmtrain {

namespace {

constexpr index_t kSliceMultiple = 64;

}  // namespace

// Whole-unit buffers that live only while a unit is in use, kept for the next unit of the
// same size: after the first micro-batch nothing is allocated.
class Units::Pool {
 public:
  Pool(Device& device, MemoryUse use) : device_(device), use_(use) {}

  Buffer take(index_t elements) {
    auto& free = free_[elements];
    if (free.empty()) return device_.allocate(elements * size_bytes(Dtype::f32), use_);
    Buffer buffer = std::move(free.back());
    free.pop_back();
    return buffer;
  }
  void give_back(Buffer buffer) {
    const index_t elements = buffer.bytes() / size_bytes(Dtype::f32);
    free_[elements].push_back(std::move(buffer));
  }

 private:
  Device& device_;
  MemoryUse use_;
  std::map<index_t, std::vector<Buffer>> free_;
};

struct Units::Unit {
  std::unique_ptr<ParameterSet> set;
  index_t padded = 0, slice = 0, slice_begin = 0;
  // Whole or this rank's slice, as the stage says.
  Buffer weights, gradients, exp_avg, exp_avg_sq;
  // Whole, while in use (stage 3; stages 2 and 3).
  Buffer gathered, local_gradients;
  int weight_users = 0;
  bool gradients_are_fresh =
      true;  // no micro-batch of this step has been reduced into them
};

index_t UnitSlice::decayed_count() const {
  return std::clamp<index_t>(parameters->decayed_size() - begin, 0, count());
}

Units::Units(Context& ctx, Communicator& data, ZeroStage stage,
             std::vector<std::unique_ptr<ParameterSet>> sets, std::uint64_t seed)
    : ctx_(ctx),
      data_(data),
      stage_(stage),
      weight_pool_(std::make_unique<Pool>(ctx.device, MemoryUse::weights)),
      gradient_pool_(std::make_unique<Pool>(ctx.device, MemoryUse::gradients)) {
  for (auto& set : sets) {
    auto unit = std::make_unique<Unit>();
    unit->set = std::move(set);
    unit->slice = round_up(divide_up(unit->set->size(), data.size()), kSliceMultiple);
    unit->padded = unit->slice * data.size();
    unit->slice_begin = unit->slice * data.rank();
    allocate(*unit);
    const index_t begin = stage_ == ZeroStage::weights ? unit->slice_begin : 0;
    unit->set->initialize(unit->weights.floats(), begin, seed);
    units_.push_back(std::move(unit));
  }
}

Units::~Units() = default;

void Units::allocate(Unit& unit) {
  const auto make = [&](index_t elements, MemoryUse use) {
    return ctx_.device.allocate(elements * size_bytes(Dtype::f32), use);
  };
  const auto whole_below = [&](ZeroStage stage) {
    return stage_ < stage ? unit.padded : unit.slice;
  };
  unit.weights = make(whole_below(ZeroStage::weights), MemoryUse::weights);
  unit.gradients = make(whole_below(ZeroStage::gradients), MemoryUse::gradients);
  unit.exp_avg = make(whole_below(ZeroStage::optimizer), MemoryUse::moments);
  unit.exp_avg_sq = make(whole_below(ZeroStage::optimizer), MemoryUse::moments);
  if (stage_ < ZeroStage::weights) unit.set->bind_weights(unit.weights.floats());
  if (stage_ < ZeroStage::gradients) unit.set->bind_gradients(unit.gradients.floats());
}

const ParameterSet& Units::parameters(int unit) const {
  return *units_[static_cast<std::size_t>(unit)]->set;
}

index_t Units::parameter_count() const {
  index_t count = 0;
  for (const auto& unit : units_) count += unit->set->parameter_count();
  return count;
}

void Units::begin_step() {
  for (auto& unit : units_) {
    unit->gradients_are_fresh = true;
    if (stage_ < ZeroStage::gradients) ops::fill(ctx_, unit->gradients.floats(), 0.0f);
  }
}

void Units::acquire_weights(int index) {
  Unit& unit = at(index);
  if (stage_ < ZeroStage::weights || unit.weight_users++ > 0) return;
  unit.gathered = weight_pool_->take(unit.padded);
  data_.all_gather(unit.gathered.floats(), unit.weights.floats());
  unit.set->bind_weights(unit.gathered.floats());
}

void Units::release_weights(int index) {
  Unit& unit = at(index);
  if (stage_ < ZeroStage::weights || --unit.weight_users > 0) return;
  unit.set->bind_weights({});
  weight_pool_->give_back(std::move(unit.gathered));
}

void Units::acquire_gradients(int index) {
  Unit& unit = at(index);
  if (stage_ < ZeroStage::gradients || unit.local_gradients) return;
  unit.local_gradients = gradient_pool_->take(unit.padded);
  ops::fill(ctx_, unit.local_gradients.floats(), 0.0f);
  unit.set->bind_gradients(unit.local_gradients.floats());
}

void Units::finish_gradients(int index) {
  Unit& unit = at(index);
  if (stage_ < ZeroStage::gradients) {
    if (place_ != MicroBatch::last) return;
    const TensorView whole = unit.gradients.floats();
    if (stage_ == ZeroStage::replicate) {
      data_.all_reduce(whole);
    } else {
      data_.reduce_scatter(whole.flat(unit.slice_begin, unit.slice), whole);
    }
    return;
  }
  // The first micro-batch overwrites, so that without accumulation the bits are those of
  // the other stages (0 + -0 would not be).
  const TensorView local = unit.local_gradients.floats();
  const TensorView reduced = local.flat(unit.slice_begin, unit.slice);
  data_.reduce_scatter(reduced, local);
  if (unit.gradients_are_fresh) {
    ops::copy(ctx_, unit.gradients.floats(), reduced);
  } else {
    ops::add(ctx_, unit.gradients.floats(), reduced);
  }
  unit.gradients_are_fresh = false;
  unit.set->bind_gradients({});
  gradient_pool_->give_back(std::move(unit.local_gradients));
}

UnitSlice Units::part(Unit& unit, index_t begin, index_t count) {
  const auto cut = [&](const Buffer& buffer) {
    const TensorView all = buffer.floats();
    const bool whole = all.count() == unit.padded;
    return all.flat(whole ? begin : begin - unit.slice_begin, count);
  };
  return {unit.set.get(),    begin,
          cut(unit.weights), cut(unit.gradients),
          cut(unit.exp_avg), cut(unit.exp_avg_sq)};
}

UnitSlice Units::slice(int unit) {
  return part(at(unit), at(unit).slice_begin, at(unit).slice);
}

UnitSlice Units::updated_part(int unit) {
  if (stage_ == ZeroStage::replicate) return part(at(unit), 0, at(unit).padded);
  return slice(unit);
}

void Units::gather_whole(Unit& unit, const Buffer& buffer) {
  const TensorView whole = buffer.floats();
  if (whole.count() != unit.padded) return;
  data_.all_gather(whole, whole.flat(unit.slice_begin, unit.slice));
}

void Units::publish_weights() {
  if (stage_ == ZeroStage::replicate) return;  // every rank has updated the whole
  for (auto& unit : units_) gather_whole(*unit, unit->weights);
}

void Units::publish_slices() {
  for (auto& unit : units_) {
    gather_whole(*unit, unit->weights);
    gather_whole(*unit, unit->exp_avg);
    gather_whole(*unit, unit->exp_avg_sq);
  }
}

}  // namespace llmtrain
