// Units carry sharding. A unit is one ParameterSet with its buffers: weights, gradients
// and Adam's moments, each one flat padded range, whole or cut into equal slices over the
// ranks of the data-parallel group (Rajbhandari et al. 2020, "ZeRO"). Replication, ZeRO 1
// to 3, clipping and checkpoints are operations on units; nothing here knows what a layer
// computes. Where layers compute with 16-bit weights, there are f32 masters beside them: the
// optimizer updates and files hold these, the 16-bit weights are their rounding. Masters are
// cut like moments.
//
//   stage  weights  gradients  moments  communication of a step
//   0      whole    whole      whole    all_reduce of gradients
//   1      whole    whole      slice    reduce_scatter of gradients, all_gather of weights
//   2      whole    slice      slice    the same, but reduce_scatter in each micro-batch
//   3      slice    slice      slice    the same, but all_gather before each use
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/device/context.hpp"
#include "llmtrain/layers/parameter.hpp"

namespace llmtrain {

enum class ZeroStage { replicate = 0, optimizer = 1, gradients = 2, weights = 3 };

// The view of one rank on one unit that the optimizer, the norm and checkpoints work on.
// All views have equal counts and cover elements [begin, begin + count) of the unit's
// flat range.
struct UnitSlice {
  const ParameterSet* parameters;
  index_t begin;
  TensorView weights;  // f32: the masters where there are any
  TensorView rounded;  // the same in 16 bits, as layers read them; empty in f32
  TensorView gradients, exp_avg, exp_avg_sq;

  index_t count() const { return weights.count(); }
  // How many of the elements weight decay applies to: they come first.
  index_t decayed_count() const;
};

// Moments and masters are f32.
struct UnitDtypes {
  Dtype weights = Dtype::f32;    // as layers read them
  Dtype gradients = Dtype::f32;  // summed over micro-batches
  Dtype reduction = Dtype::f32;  // between ranks: summed in f32, rounded once
};

class Units {
 public:
  // Allocates on ctx.device, initialises the weights from `seed`. `data` (the
  // data-parallel group) and the context must outlive this. Elements padded so that each
  // slice is a multiple of 64; slices without a single parameter are fine.
  Units(Context& ctx, Communicator& data, ZeroStage stage, const UnitDtypes& dtypes,
        std::vector<std::unique_ptr<ParameterSet>> sets, std::uint64_t seed);
  ~Units();
  Units(const Units&) = delete;
  Units& operator=(const Units&) = delete;

  int count() const { return static_cast<int>(units_.size()); }
  const ParameterSet& parameters(int unit) const;
  ZeroStage stage() const { return stage_; }
  index_t parameter_count() const;

  // A step: begin_step(); then for each micro-batch begin_micro_batch() and, around each
  // use of a unit, the calls below; then end of the last backward pass leaves every
  // gradient reduced.
  void begin_step();
  enum class MicroBatch { more_follow, last };
  void begin_micro_batch(MicroBatch place) { place_ = place; }

  // Makes the weights of a unit readable by its layers, until as many releases.
  // Collective under stage 3.
  void acquire_weights(int unit);
  void release_weights(int unit);
  // Makes the gradients of a unit accumulate in its layers' handles.
  void acquire_gradients(int unit);
  // The unit's backward pass of this micro-batch is done: reduces what the stage reduces
  // now. Collective.
  void finish_gradients(int unit);

  // This rank's ZeRO 1 slice of a unit, the same in every stage: norms and checkpoints.
  UnitSlice slice(int unit);
  // What this rank updates: the slice, or under stage 0 the whole unit.
  UnitSlice updated_part(int unit);
  // Weights were updated: makes them current on every rank. Collective.
  void publish_weights();
  // The slices were filled from elsewhere (f32 weights and moments): makes what is rounded
  // or whole in this stage current on every rank. Collective.
  void publish_slices();

 private:
  struct Unit;
  class Pool;

  Unit& at(int unit) { return *units_[static_cast<std::size_t>(unit)]; }
  UnitSlice part(Unit& unit, index_t begin, index_t count);
  bool has_masters() const { return dtypes_.weights != Dtype::f32; }
  void allocate(Unit& unit);
  void initialize(Unit& unit, std::uint64_t seed);
  void gather_whole(Unit& unit, const Buffer& buffer, Dtype dtype);
  // Sums over ranks, in the dtype that gradients travel in: all of `gradients` under stage 0,
  // else only this rank's slice is right afterwards.
  void reduce(Unit& unit, TensorView gradients);

  Context& ctx_;
  Communicator& data_;
  ZeroStage stage_;
  UnitDtypes dtypes_;
  MicroBatch place_ = MicroBatch::last;
  std::unique_ptr<Pool> weight_pool_, gradient_pool_, reduction_pool_;
  std::vector<std::unique_ptr<Unit>> units_;
};

// Acquires a unit's weights for the life of the object.
class WeightsInUse {
 public:
  WeightsInUse(Units& units, int unit) : units_(units), unit_(unit) {
    units_.acquire_weights(unit_);
  }
  ~WeightsInUse() { units_.release_weights(unit_); }
  WeightsInUse(const WeightsInUse&) = delete;
  WeightsInUse& operator=(const WeightsInUse&) = delete;

 private:
  Units& units_;
  int unit_;
};

}  // namespace llmtrain
