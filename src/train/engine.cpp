#include "llmtrain/train/engine.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
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

// The parts pipeline rank, pipeline rank + ranks, ... of the model.
std::vector<ModelPart> parts_of_this_rank(const Config& config, const ProcessGrid& grid) {
  const int stages = grid.shape()[Axis::pipeline];
  const int chunks = static_cast<int>(config.parallel.chunks);
  const std::vector<ModelPart> all =
      model_parts(config.model, stages * chunks, config.parallel.blocks);
  std::vector<ModelPart> mine;
  for (int part = grid.coordinate(Axis::pipeline); part < stages * chunks;
       part += stages) {
    mine.push_back(all[static_cast<std::size_t>(part)]);
  }
  return mine;
}

PipelineSettings pipeline_settings(const Config& config, const ProcessGrid& grid) {
  return {.schedule = config.parallel.schedule,
          .chunks = static_cast<int>(config.parallel.chunks),
          .micro_batches = static_cast<int>(
              config.batch.global / grid.shape()[Axis::data] / config.batch.micro),
          .sequences = config.batch.micro,
          .seq_len = config.model.context};
}

}  // namespace

Engine::Engine(const Config& config, ProcessGrid& grid)
    : Engine(config, DeviceKind::cpu, measure(config, grid.shape(), grid.world().rank()),
             grid) {}

Engine::Engine(const Config& config, DeviceKind kind, ArenaSizes sizes, ProcessGrid& grid)
    : config_(config),
      grid_(grid),
      device_(kind, grid.shape()[Axis::data] > 1 ? Sharing::node : Sharing::none),
      saved_(device_, 0, MemoryUse::activations),
      scratch_(device_, sizes.scratch, MemoryUse::workspace),
      ctx_{device_, saved_, scratch_},
      model_(ctx_, config.model, dtype_of(config.precision.dtype),
             grid.along(Axis::tensor), parts_of_this_rank(config, grid),
             grid.shape()[Axis::pipeline] > 1,
             static_cast<std::uint64_t>(config.run.seed)),
      units_(std::make_unique<Units>(
          ctx_,
          Units::Groups{grid.along(Axis::data), grid.along(Axis::tensor),
                        grid.along(Axis::pipeline)},
          static_cast<ZeroStage>(config.parallel.zero),
          UnitDtypes{.weights = dtype_of(config.precision.dtype),
                     .gradients = dtype_of(config.precision.gradients),
                     .reduction = dtype_of(config.precision.reduction)},
          model_.take_parameter_sets(), static_cast<std::uint64_t>(config.run.seed))),
      runner_(ctx_, grid.along(Axis::pipeline), model_, pipeline_settings(config, grid),
              sizes.slot) {}

Engine::Engine(const Config& config, std::unique_ptr<ProcessGrid> pretended)
    : Engine(config, DeviceKind::meta,
             measure(config, pretended->shape(), pretended->world().rank()), *pretended) {
  pretended_ = std::move(pretended);
  run_on_meta();
}

std::unique_ptr<Engine> Engine::plan(const Config& config, const GridShape& shape,
                                     int rank) {
  return std::unique_ptr<Engine>(
      new Engine(config, std::make_unique<ProcessGrid>(shape, rank)));
}

ArenaSizes Engine::measure(const Config& config, const GridShape& shape, int rank) {
  ProcessGrid pretended(shape, rank);
  Engine engine(config, DeviceKind::meta, {}, pretended);
  engine.run_on_meta();
  return {engine.runner_.slot_high_water(), engine.scratch_.high_water()};
}

double Engine::communication_seconds() {
  double seconds = 0;
  for (const Axis axis : {Axis::data, Axis::tensor, Axis::pipeline}) {
    seconds += grid_.along(axis).traffic().seconds;
  }
  return seconds;
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
  const std::vector<ModelInput> inputs(
      static_cast<std::size_t>(pipeline_settings(config_, grid_).micro_batches), input);
  train_step({.micro_batches = inputs, .valid_tokens = shape.count()});
  evaluate(input);
}

StepOutcome Engine::train_step(const StepInput& input) {
  const Timer timer;
  const double communication_before = communication_seconds();
  StepOutcome outcome;
  const bool counts = grid_.counts_samples();
  const double local_tokens[] = {counts ? static_cast<double>(input.valid_tokens) : 0.0};
  double tokens = 0;
  for (const double count : grid_.world().all_gather(local_tokens)) tokens += count;
  outcome.valid_tokens = static_cast<index_t>(tokens);
  const auto scale = static_cast<float>(input.loss_scale / std::max(1.0, tokens));

  units_->begin_step();
  const double pipeline_before = grid_.along(Axis::pipeline).traffic().seconds;
  const double loss = runner_.forward_backward(*units_, input.micro_batches, scale);
  times_.pipeline += grid_.along(Axis::pipeline).traffic().seconds - pipeline_before;
  const double computed = timer.seconds();
  const double communication_computed = communication_seconds();

  const double p = config_.optimizer.clip_order;
  const double local[] = {counts ? loss : 0.0, gradient_norm_partial(ctx_, *units_, p),
                          static_cast<double>(input.flags)};
  const std::vector<double> all = grid_.world().all_gather(local);
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
  const double communication = communication_seconds();
  times_.communication += communication - communication_before;
  times_.forward_backward += computed - (communication_computed - communication_before);
  times_.optimizer +=
      timer.seconds() - computed - (communication - communication_computed);
  return outcome;
}

double Engine::evaluate(const ModelInput& input) {
  return runner_.evaluate(*units_, input);
}

std::vector<float> Engine::last_logits(std::span<std::int32_t> tokens) {
  std::vector<float> logits(static_cast<std::size_t>(config_.model.vocabulary));
  const TensorView ids(tokens.data(), Dtype::i32,
                       Shape{1, static_cast<index_t>(tokens.size())});
  runner_.last_logits(*units_, {.tokens = ids},
                      {logits.data(), Dtype::f32, Shape{config_.model.vocabulary}});
  if (grid_.shape()[Axis::pipeline] == 1) return logits;
  // The last rank of the first pipeline tells all.
  const auto bytes = logits.size() * sizeof(float);
  std::string text(bytes, '\0');
  if (runner_.is_last()) std::memcpy(text.data(), logits.data(), bytes);
  text = grid_.world().broadcast(text, grid_.last_of_pipeline());
  std::memcpy(logits.data(), text.data(), bytes);
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
  const std::vector<double> all = grid_.world().all_gather(fault);
  return std::all_of(all.begin(), all.end(), [](double x) { return std::isfinite(x); });
}

std::vector<io::Piece> Engine::pieces(Copies copies) {
  std::vector<io::Piece> pieces;
  for (int unit = 0; unit < units_->count(); ++unit) {
    const UnitSlice slice = units_->slice(unit);
    for (const ParameterRow& row : slice.parameters->rows()) {
      if (copies == Copies::first && !row.first_copy) continue;
      const index_t begin = std::max(row.offset, slice.begin);
      const index_t end =
          std::min(row.offset + row.box.count(), slice.begin + slice.count());
      if (begin >= end) continue;
      const auto add = [&](io::TensorKind kind, const TensorView& values) {
        pieces.push_back({.name = row.spec.name,
                          .kind = kind,
                          .global = row.spec.shape,
                          .box = {row.box_offset, row.box},
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
