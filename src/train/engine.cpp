#include "llmtrain/train/engine.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "llmtrain/core/timer.hpp"
#include "llmtrain/ops/reduce.hpp"
#include "llmtrain/optim/adamw.hpp"
#include "llmtrain/optim/gradient_norm.hpp"

namespace llmtrain {

namespace {

Dtype dtype_of(Precision precision) {
  switch (precision) {
    case Precision::f32:
      return Dtype::f32;
    case Precision::bf16:
      return Dtype::bf16;
    case Precision::fp16:
      return Dtype::fp16;
  }
  fail(Status::internal, "a precision without a dtype");
}

}  // namespace

Engine::Engine(const Config& config, ProcessGrid& grid)
    : Engine(config, DeviceKind::cpu, measure(config, grid.along(Axis::data)),
             grid.world(), grid.along(Axis::data)) {}

Engine::Engine(const Config& config, DeviceKind kind, ArenaSizes sizes,
               Communicator& world, Communicator& data)
    : config_(config),
      world_(world),
      data_(data),
      device_(kind, data.size() > 1 ? Sharing::node : Sharing::none),
      saved_(device_, sizes.saved, MemoryUse::activations),
      scratch_(device_, sizes.scratch, MemoryUse::workspace),
      ctx_{device_, saved_, scratch_},
      model_(ctx_, config.model, dtype_of(config.precision.dtype),
             static_cast<std::uint64_t>(config.run.seed)) {
  units_ = std::make_unique<Units>(
      ctx_, data_, static_cast<ZeroStage>(config.parallel.zero),
      UnitDtypes{.weights = dtype_of(config.precision.dtype),
                 .gradients = dtype_of(config.precision.gradients),
                 .reduction = dtype_of(config.precision.reduction)},
      model_.take_parameter_sets(), static_cast<std::uint64_t>(config.run.seed));
}

Engine::Engine(const Config& config, std::unique_ptr<Communicator> pretended)
    : Engine(config, DeviceKind::meta, measure(config, *pretended), *pretended,
             *pretended) {
  pretended_ = std::move(pretended);
  run_on_meta();
}

std::unique_ptr<Engine> Engine::plan(const Config& config, int data_rank,
                                     int data_ranks) {
  return std::unique_ptr<Engine>(
      new Engine(config, make_counting_communicator(data_rank, data_ranks)));
}

ArenaSizes Engine::measure(const Config& config, const Communicator& data) {
  const auto pretended = make_counting_communicator(data.rank(), data.size());
  Engine engine(config, DeviceKind::meta, {}, *pretended, *pretended);
  engine.run_on_meta();
  return {engine.saved_.high_water(), engine.scratch_.high_water()};
}

void Engine::run_on_meta() {
  const Shape shape{config_.batch.micro, config_.model.context};
  const TensorView ids(nullptr, Dtype::i32, shape);
  const std::vector<std::uint32_t> positions(static_cast<std::size_t>(shape[0]));
  const ModelInput input{
      .tokens = ids,
      .labels = ids,
      .document_starts = config_.data.document_mask ? ids : TensorView{},
      .positions = positions};
  train_step({.micro_batches = {&input, 1}, .valid_tokens = shape.count()});
  evaluate(input);
}

StepOutcome Engine::train_step(const StepInput& input) {
  const Timer timer;
  const double communication_before = data_.traffic().seconds;
  StepOutcome outcome;
  const double local_tokens[] = {static_cast<double>(input.valid_tokens)};
  double tokens = 0;
  for (const double count : world_.all_gather(local_tokens)) tokens += count;
  outcome.valid_tokens = static_cast<index_t>(tokens);
  const auto scale = static_cast<float>(input.loss_scale / std::max(1.0, tokens));

  units_->begin_step();
  double loss = 0;
  for (std::size_t i = 0; i < input.micro_batches.size(); ++i) {
    units_->begin_micro_batch(i + 1 == input.micro_batches.size()
                                  ? Units::MicroBatch::last
                                  : Units::MicroBatch::more_follow);
    loss += model_.forward_backward(ctx_, *units_, input.micro_batches[i], scale);
  }
  const double computed = timer.seconds();
  const double communication_computed = data_.traffic().seconds;

  const double p = config_.optimizer.clip_order;
  const double local[] = {loss, gradient_norm_partial(ctx_, *units_, p),
                          static_cast<double>(input.flags)};
  const std::vector<double> all = world_.all_gather(local);
  std::vector<double> partials;
  for (std::size_t r = 0; r < all.size(); r += std::size(local)) {
    outcome.loss += all[r] / std::max(1.0, tokens);
    partials.push_back(all[r + 1]);
    outcome.flags |= static_cast<unsigned>(all[r + 2]);
  }
  outcome.gradient_norm = gradient_norm(partials, p) / input.loss_scale;
  outcome.applied = std::isfinite(outcome.gradient_norm) && std::isfinite(outcome.loss);
  if (outcome.applied) {
    const double clip =
        clip_coefficient(outcome.gradient_norm, config_.optimizer.clip_norm);
    adamw_step(ctx_, *units_, config_.optimizer, input.learning_rate,
               clip / input.loss_scale, input.applied_step);
  }
  const double communication = data_.traffic().seconds;
  times_.communication += communication - communication_before;
  times_.forward_backward += computed - (communication_computed - communication_before);
  times_.optimizer +=
      timer.seconds() - computed - (communication - communication_computed);
  return outcome;
}

double Engine::evaluate(const ModelInput& input) {
  return model_.evaluate(ctx_, *units_, input);
}

std::vector<float> Engine::last_logits(std::span<std::int32_t> tokens) {
  std::vector<float> logits(static_cast<std::size_t>(config_.model.vocabulary));
  const TensorView ids(tokens.data(), Dtype::i32,
                       Shape{1, static_cast<index_t>(tokens.size())});
  model_.last_logits(ctx_, *units_,
                     {logits.data(), Dtype::f32, Shape{config_.model.vocabulary}}, ids);
  return logits;
}

bool Engine::is_finite() {
  double fault[] = {0};  // a value that is not finite
  for (int unit = 0; unit < units_->count(); ++unit) {
    const UnitSlice slice = units_->slice(unit);
    for (const TensorView& values : {slice.weights, slice.exp_avg, slice.exp_avg_sq}) {
      const double value =
          ops::sum_of_powers(ctx_, values, std::numeric_limits<double>::infinity());
      if (!std::isfinite(value)) fault[0] = value;
    }
  }
  const std::vector<double> all = world_.all_gather(fault);
  return std::all_of(all.begin(), all.end(), [](double x) { return std::isfinite(x); });
}

std::vector<io::Piece> Engine::pieces() {
  std::vector<io::Piece> pieces;
  for (int unit = 0; unit < units_->count(); ++unit) {
    const UnitSlice slice = units_->slice(unit);
    for (const ParameterRow& row : slice.parameters->rows()) {
      const Shape& shape = row.spec.shape;
      const index_t begin = std::max(row.offset, slice.begin);
      const index_t end =
          std::min(row.offset + shape.count(), slice.begin + slice.count());
      if (begin >= end) continue;
      const auto add = [&](io::TensorKind kind, const TensorView& values) {
        pieces.push_back({.name = row.spec.name,
                          .kind = kind,
                          .global = shape,
                          .box = {shape.origin(), shape},
                          .begin = begin - row.offset,
                          .data = values.flat(begin - slice.begin, end - begin)});
      };
      add(io::TensorKind::weight, slice.weights);
      add(io::TensorKind::exp_avg, slice.exp_avg);
      add(io::TensorKind::exp_avg_sq, slice.exp_avg_sq);
    }
  }
  return pieces;
}

EngineTimes Engine::times() const { return times_; }

void Engine::weights_loaded() { units_->publish_slices(); }

}  // namespace llmtrain
