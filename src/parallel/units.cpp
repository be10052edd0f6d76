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
  Pool(Device& device, Dtype dtype, MemoryUse use)
      : device_(device), dtype_(dtype), use_(use) {}

  Buffer take(index_t elements) {
    const index_t bytes = elements * size_bytes(dtype_);
    auto& free = free_[bytes];
    if (free.empty()) return device_.allocate(bytes, use_);
    Buffer buffer = std::move(free.back());
    free.pop_back();
    return buffer;
  }
  void give_back(Buffer buffer) { free_[buffer.bytes()].push_back(std::move(buffer)); }

 private:
  Device& device_;
  Dtype dtype_;
  MemoryUse use_;
  std::map<index_t, std::vector<Buffer>> free_;
};

struct Units::Unit {
  std::unique_ptr<ParameterSet> set;
  index_t padded = 0, slice = 0, slice_begin = 0;
  // Whole or this rank's slice, as the stage says.
  Buffer weights, gradients, masters, exp_avg, exp_avg_sq;
  // Whole, while in use (stage 3; stages 2 and 3).
  Buffer gathered, local_gradients;
  int weight_users = 0;
  bool gradients_are_fresh =
      true;  // no micro-batch of this step has been reduced into them
};

index_t UnitSlice::decayed_count() const {
  return std::clamp<index_t>(parameters->decayed_size() - begin, 0, count());
}

Units::Units(Context& ctx, Communicator& data, ZeroStage stage, const UnitDtypes& dtypes,
             std::vector<std::unique_ptr<ParameterSet>> sets, std::uint64_t seed)
    : ctx_(ctx),
      data_(data),
      stage_(stage),
      dtypes_(dtypes),
      weight_pool_(
          std::make_unique<Pool>(ctx.device, dtypes.weights, MemoryUse::weights)),
      gradient_pool_(
          std::make_unique<Pool>(ctx.device, dtypes.gradients, MemoryUse::gradients)),
      reduction_pool_(
          std::make_unique<Pool>(ctx.device, dtypes.reduction, MemoryUse::gradients)) {
  for (auto& set : sets) {
    auto unit = std::make_unique<Unit>();
    unit->set = std::move(set);
    unit->slice = round_up(divide_up(unit->set->size(), data.size()), kSliceMultiple);
    unit->padded = unit->slice * data.size();
    unit->slice_begin = unit->slice * data.rank();
    allocate(*unit);
    initialize(*unit, seed);
    units_.push_back(std::move(unit));
  }
}

Units::~Units() = default;

void Units::allocate(Unit& unit) {
  // Whole in the stages below `sharded_from`.
  const auto make = [&](ZeroStage sharded_from, Dtype dtype, MemoryUse use) {
    const index_t elements = stage_ < sharded_from ? unit.padded : unit.slice;
    return ctx_.device.allocate(elements * size_bytes(dtype), use);
  };
  unit.weights = make(ZeroStage::weights, dtypes_.weights, MemoryUse::weights);
  unit.gradients = make(ZeroStage::gradients, dtypes_.gradients, MemoryUse::gradients);
  if (has_masters()) {
    unit.masters = make(ZeroStage::optimizer, Dtype::f32, MemoryUse::masters);
  }
  unit.exp_avg = make(ZeroStage::optimizer, Dtype::f32, MemoryUse::moments);
  unit.exp_avg_sq = make(ZeroStage::optimizer, Dtype::f32, MemoryUse::moments);
  if (stage_ < ZeroStage::weights) {
    unit.set->bind_weights(unit.weights.view(dtypes_.weights));
  }
  if (stage_ < ZeroStage::gradients) {
    unit.set->bind_gradients(unit.gradients.view(dtypes_.gradients));
  }
}

void Units::initialize(Unit& unit, std::uint64_t seed) {
  const auto fill = [&](const Buffer& buffer, Dtype dtype, ZeroStage sharded_from) {
    unit.set->initialize(buffer.view(dtype), stage_ < sharded_from ? 0 : unit.slice_begin,
                         seed);
  };
  fill(unit.weights, dtypes_.weights, ZeroStage::weights);
  if (has_masters()) fill(unit.masters, Dtype::f32, ZeroStage::optimizer);
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
    if (stage_ < ZeroStage::gradients) {
      ops::fill(ctx_, unit->gradients.view(dtypes_.gradients), 0.0f);
    }
  }
}

void Units::acquire_weights(int index) {
  Unit& unit = at(index);
  if (stage_ < ZeroStage::weights || unit.weight_users++ > 0) return;
  unit.gathered = weight_pool_->take(unit.padded);
  const TensorView whole = unit.gathered.view(dtypes_.weights);
  data_.all_gather(whole, unit.weights.view(dtypes_.weights));
  unit.set->bind_weights(whole);
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
  const TensorView local = unit.local_gradients.view(dtypes_.gradients);
  ops::fill(ctx_, local, 0.0f);
  unit.set->bind_gradients(local);
}

void Units::reduce(Unit& unit, TensorView gradients) {
  const auto own = [&](TensorView whole) {
    return stage_ == ZeroStage::replicate ? whole
                                          : whole.flat(unit.slice_begin, unit.slice);
  };
  const auto sum = [&](TensorView whole) {
    if (stage_ == ZeroStage::replicate) {
      data_.all_reduce(whole);
    } else {
      data_.reduce_scatter(own(whole), whole);
    }
  };
  if (dtypes_.reduction == dtypes_.gradients) return sum(gradients);
  Buffer buffer = reduction_pool_->take(unit.padded);
  const TensorView travelling = buffer.view(dtypes_.reduction);
  ops::copy(ctx_, travelling, gradients);
  sum(travelling);
  ops::copy(ctx_, own(gradients), own(travelling));
  reduction_pool_->give_back(std::move(buffer));
}

void Units::finish_gradients(int index) {
  Unit& unit = at(index);
  if (stage_ < ZeroStage::gradients) {
    if (place_ == MicroBatch::last) reduce(unit, unit.gradients.view(dtypes_.gradients));
    return;
  }
  // The first micro-batch overwrites, so that without accumulation the bits are those of
  // the other stages (0 + -0 would not be).
  const TensorView local = unit.local_gradients.view(dtypes_.gradients);
  const TensorView sums = unit.gradients.view(dtypes_.gradients);
  reduce(unit, local);
  const TensorView reduced = local.flat(unit.slice_begin, unit.slice);
  if (unit.gradients_are_fresh) {
    ops::copy(ctx_, sums, reduced);
  } else {
    ops::add(ctx_, sums, reduced);
  }
  unit.gradients_are_fresh = false;
  unit.set->bind_gradients({});
  gradient_pool_->give_back(std::move(unit.local_gradients));
}

UnitSlice Units::part(Unit& unit, index_t begin, index_t count) {
  const auto cut = [&](const Buffer& buffer, Dtype dtype) {
    const TensorView all = buffer.view(dtype);
    const bool whole = all.count() == unit.padded;
    return all.flat(whole ? begin : begin - unit.slice_begin, count);
  };
  const TensorView weights = cut(unit.weights, dtypes_.weights);
  return {.parameters = unit.set.get(),
          .begin = begin,
          .weights = has_masters() ? cut(unit.masters, Dtype::f32) : weights,
          .rounded = has_masters() ? weights : TensorView{},
          .gradients = cut(unit.gradients, dtypes_.gradients),
          .exp_avg = cut(unit.exp_avg, Dtype::f32),
          .exp_avg_sq = cut(unit.exp_avg_sq, Dtype::f32)};
}

UnitSlice Units::slice(int unit) {
  return part(at(unit), at(unit).slice_begin, at(unit).slice);
}

UnitSlice Units::updated_part(int unit) {
  if (stage_ == ZeroStage::replicate) return part(at(unit), 0, at(unit).padded);
  return slice(unit);
}

void Units::gather_whole(Unit& unit, const Buffer& buffer, Dtype dtype) {
  const TensorView whole = buffer.view(dtype);
  if (whole.count() != unit.padded) return;
  data_.all_gather(whole, whole.flat(unit.slice_begin, unit.slice));
}

void Units::publish_weights() {
  if (stage_ == ZeroStage::replicate) return;  // every rank has updated the whole
  for (auto& unit : units_) gather_whole(*unit, unit->weights, dtypes_.weights);
}

void Units::publish_slices() {
  for (int i = 0; i < count(); ++i) {
    const UnitSlice part = slice(i);
    if (has_masters()) ops::copy(ctx_, part.rounded, part.weights);
    Unit& unit = at(i);
    gather_whole(unit, unit.weights, dtypes_.weights);
    gather_whole(unit, unit.masters, Dtype::f32);
    gather_whole(unit, unit.exp_avg, Dtype::f32);
    gather_whole(unit, unit.exp_avg_sq, Dtype::f32);
  }
}

}  // namespace llmtrain
