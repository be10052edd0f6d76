#include "llmtrain/train/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "llmtrain/optim/lr_schedule.hpp"
#include "llmtrain/train/console.hpp"
#include "llmtrain/train/generator.hpp"
#include "matmul_peak.hpp"

namespace llmtrain {

namespace {

ModelInput model_input(data::Batch& batch, index_t step) {
  const auto view = [&](std::vector<std::int32_t>& ids) {
    return ids.empty() ? TensorView{} : TensorView{ids.data(), Dtype::i32, batch.shape()};
  };
  return {.tokens = view(batch.tokens),
          .labels = view(batch.labels),
          .document_starts = view(batch.document_starts),
          .positions = batch.positions,
          .step = static_cast<std::uint32_t>(step)};
}

data::Share make_share(const Config& config, ProcessGrid& grid) {
  return {.rank = grid.coordinate(Axis::data),
          .ranks = grid.shape()[Axis::data],
          .global_batch = config.batch.global,
          .micro_batch = config.batch.micro};
}

}  // namespace

Trainer::Trainer(const Config& config, const RunDescription& description,
                 ProcessGrid& grid, const data::Datasets& datasets,
                 StopRequests& requests, Log& log)
    : config_(config),
      description_(description),
      grid_(grid),
      datasets_(datasets),
      log_(log),
      share_(make_share(config, grid)),
      fingerprint_(grid.world().broadcast(
          grid.world().rank() == 0 ? datasets.train.fingerprint() : "", 0)),
      engine_(config, grid),
      sampler_(config.data.order, datasets.train.samples(),
               static_cast<std::uint64_t>(config.run.seed), share_.ranks),
      checkpoints_(grid.world(), config.checkpoint.directory, config.checkpoint, log),
      requests_(requests) {
  requests_.begin(grid.world().rank() == 0, config.run.directory,
                  description.wall_seconds, description.started);
  print_model(log_, config_, grid.shape());
  progress_.epoch_size = sampler_.epoch_size();
  progress_.seed = static_cast<std::uint64_t>(config_.run.seed);
  progress_.data_fingerprint = fingerprint_;
  progress_.data_order = name(config_.data.order);
  progress_.model = describe(config_.model);
  progress_.required_ranks = sampler_.required_ranks();
  set_loss_scale(first_loss_scale(config_.precision));
  // Until one has been seen: what a slow shared disk takes for weights and moments.
  longest_save_ = 12.0 * static_cast<double>(engine_.units().parameter_count()) / 2e8;
  if (datasets_.validation.samples() == 0 && config_.train.evaluate_every > 0) {
    log_.warn("train.evaluate_every = ", config_.train.evaluate_every,
              ", but there is nothing to validate on: give data.validation or "
              "data.validation_fraction");
  }
  resume();
  first_step_ = progress_.step;
  if (grid_.world().rank() == 0) {
    metrics_ = std::make_unique<MetricsFile>(config_.run.directory + "/metrics.csv",
                                             progress_.step);
  }
  peak_flops_ = measure_matmul_peak(grid_.world());
  log_.line("peak       ", std::lround(peak_flops_ / 1e9),
            " GFLOP/s of f32 matrix products, measured over all ranks");
}

Trainer::~Trainer() = default;

void Trainer::resume() {
  const auto path = checkpoints_.find();
  if (!path) {
    log_.line("resume     none: training starts at step 0");
    return;
  }
  const io::Progress saved = checkpoints_.read_progress(*path);
  check_matches(saved);
  checkpoints_.load(*path, engine_.pieces(Engine::Copies::all));
  engine_.weights_loaded();
  progress_ = saved;
  progress_.required_ranks = sampler_.required_ranks();
  const bool scaled_before = saved.loss_scale > 0;
  set_loss_scale(scaled_before && config_.precision.dtype == Precision::fp16
                     ? LossScale{saved.loss_scale, saved.loss_scale_good_steps}
                     : first_loss_scale(config_.precision));
  saved_step_ = saved.step;
  log_.line("resume     ", *path, ": step ", saved.step, ", ", saved.samples,
            " samples read");
}

void Trainer::check_matches(const io::Progress& saved) const {
  std::string faults;
  const auto fault = [&](const auto&... text) {
    faults += cat(faults.empty() ? "" : "\n", text...);
  };
  if (saved.data_fingerprint != fingerprint_) {
    fault("the training data are not those of the checkpoint (fingerprint ", fingerprint_,
          ", was ", saved.data_fingerprint,
          "): give the same files in data.train, the same data.validation_fraction and "
          "the same "
          "model.context, or start anew "
          "with checkpoint.resume = none");
  }
  if (saved.model != progress_.model) {
    fault("the model is not that of the checkpoint: it is ", progress_.model, ", was ",
          saved.model);
  }
  if (saved.data_order != progress_.data_order) {
    fault("data.order = ", progress_.data_order, ", but the checkpoint's run had ",
          saved.data_order, ": samples would be repeated or left out");
  }
  if (saved.seed != progress_.seed) {
    fault("run.seed = ", progress_.seed, ", but the checkpoint's run had ", saved.seed,
          ": another seed would read the data in another order");
  }
  if (saved.required_ranks != progress_.required_ranks) {
    fault(
        "data.order = torch depends on the number of data-parallel ranks: this run has ",
        share_.ranks, ", the checkpoint needs ", saved.required_ranks,
        " (0: another order)");
  }
  if (!faults.empty()) fail_everywhere(Status::usage, faults);
}

Status Trainer::run() {
  if (progress_.step >= description_.total_steps) {
    log_.line("finished: the checkpoint is at step ", progress_.step, " of ",
              description_.total_steps, "; nothing is left to train");
    sample();
    return Status::finished;
  }
  loader_ = std::make_unique<data::Loader>(datasets_.train, sampler_, share_,
                                           progress_.samples);
  interval_.lap();
  while (progress_.step < description_.total_steps) {
    const StepOutcome outcome = train_step();
    after_step(outcome);
    if ((outcome.flags & kStop) && progress_.step < description_.total_steps) {
      if (saved_step_ != progress_.step) {
        fail_everywhere(Status::io, "stopping for ", stop_reason(outcome.flags),
                        " at step ", progress_.step,
                        ", but the checkpoint could not be saved");
      }
      summarize("stopped early by " + stop_reason(outcome.flags) +
                "; run the same command to go on");
      return Status::stopped_early;
    }
  }
  finish();
  return Status::finished;
}

StepOutcome Trainer::train_step() {
  Timer timer;
  const index_t step = progress_.step;
  data::StepBatches batches = loader_->next_step(progress_.samples);
  data_seconds_ += timer.seconds();
  std::vector<ModelInput> inputs;
  for (data::Batch& batch : batches.micro_batches) {
    inputs.push_back(model_input(batch, step));
  }
  const StepOutcome outcome = engine_.train_step(
      {.micro_batches = inputs,
       .valid_tokens = batches.valid_tokens,
       .step = step,
       .applied_step = progress_.applied_steps + 1,
       .learning_rate = learning_rate(config_.schedule, config_.optimizer.learning_rate,
                                      description_.total_steps, step),
       .loss_scale = loss_scale_.value,
       .flags = requests_.poll(margin_seconds())});
  longest_step_ = std::max(longest_step_, timer.seconds());
  return outcome;
}

void Trainer::after_step(const StepOutcome& outcome) {
  count_outcome(outcome);
  const bool last = progress_.step == description_.total_steps;
  // Who asks to stop has no time for a validation.
  const bool stops = (outcome.flags & kStop) && !last;
  std::optional<double> validation_loss;
  if (last || (is_due(config_.train.evaluate_every) && !stops))
    validation_loss = validate();
  if (last || validation_loss || is_due(config_.train.log_every) ||
      progress_.step == first_step_ + 1) {
    log_step(outcome, validation_loss);
  }
  if (last || stops || save_is_requested(outcome.flags) ||
      is_due(config_.checkpoint.every)) {
    save();
    if ((outcome.flags & kSaveBySignal) && saved_step_ == progress_.step) {
      signalled_save_step_ = progress_.step;
    }
  }
}

// The ranks of a job hear one signal in neighbouring steps: that is one request.
bool Trainer::save_is_requested(unsigned flags) const {
  constexpr index_t kEchoSteps = 2;
  const bool echo = progress_.step <= signalled_save_step_ + kEchoSteps;
  return (flags & kSaveByFile) || ((flags & kSaveBySignal) && !echo);
}

void Trainer::count_outcome(const StepOutcome& outcome) {
  progress_.step += 1;
  progress_.samples += config_.batch.global;
  progress_.tokens += outcome.valid_tokens;
  trained_tokens_ += outcome.valid_tokens;
  interval_tokens_ += outcome.valid_tokens;
  interval_steps_ += 1;
  const LossScale scale = loss_scale_;
  set_loss_scale(next_loss_scale(config_.precision, scale, !outcome.applied));
  if (outcome.applied) {
    progress_.applied_steps += 1;
    progress_.skipped_in_row = 0;
    progress_.last_loss = outcome.loss;
    return;
  }
  skipped_steps_ += 1;
  if (can_shrink(config_.precision, scale)) {
    log_.line("step ", progress_.step,
              ": overflow in fp16, the update is skipped, loss scale ", scale.value,
              " -> ", loss_scale_.value);
    return;
  }
  progress_.skipped_in_row += 1;
  log_.warn("step ", progress_.step, ": loss ", outcome.loss, ", gradient norm ",
            outcome.gradient_norm, ": not finite, the update is skipped");
  if (progress_.skipped_in_row >= config_.optimizer.max_skipped) {
    fail_everywhere(
        Status::numerics, progress_.skipped_in_row,
        " steps in a row without a finite loss and gradient (optimizer.max_skipped), the "
        "last at step ",
        progress_.step,
        "; the last checkpoint is from before them: lower optimizer.learning_rate or "
        "look "
        "at the data there");
  }
}

void Trainer::set_loss_scale(const LossScale& scale) {
  loss_scale_ = scale;
  const bool stored = config_.precision.dtype == Precision::fp16;
  progress_.loss_scale = stored ? scale.value : 0;
  progress_.loss_scale_good_steps = scale.good_steps;
}

bool Trainer::is_due(std::int64_t every) const {
  return every > 0 && progress_.step % every == 0;
}

// What may pass before the next chance to stop, and the save then, with some room.
double Trainer::margin_seconds() const {
  return 2 + 2 * longest_step_ + longest_validation_ + 1.5 * longest_save_;
}

void Trainer::log_step(const StepOutcome& outcome,
                       std::optional<double> validation_loss) {
  const double seconds = interval_.lap() - interval_paused_;
  const double rate = static_cast<double>(interval_tokens_) / seconds;
  const double step_seconds = seconds / static_cast<double>(interval_steps_);
  const double rate_lr = learning_rate(config_.schedule, config_.optimizer.learning_rate,
                                       description_.total_steps, progress_.step - 1);
  log_.line(step_line(
      {.step = progress_.step,
       .total_steps = description_.total_steps,
       .loss = outcome.loss,
       .gradient_norm = outcome.gradient_norm,
       .learning_rate = rate_lr,
       .tokens_per_second = rate,
       .milliseconds = step_seconds * 1e3,
       .peak_share = rate * flops_per_token(config_.model) / peak_flops_,
       .seconds_left = step_seconds *
                       static_cast<double>(description_.total_steps - progress_.step)}));
  if (validation_loss) {
    log_.line("validation at step ", progress_.step, ": loss ", *validation_loss,
              " nats a token, perplexity ", std::exp(*validation_loss), ", best ",
              progress_.best_validation_loss, " at step ",
              progress_.best_validation_step);
  }
  if (metrics_) {
    write_metrics({.step = progress_.step,
                   .tokens = progress_.tokens,
                   .loss = outcome.loss,
                   .gradient_norm = outcome.gradient_norm,
                   .learning_rate = rate_lr,
                   .tokens_per_second = rate,
                   .milliseconds = step_seconds * 1e3,
                   .validation_loss = validation_loss});
  }
  interval_tokens_ = interval_steps_ = 0;
  interval_paused_ = 0;
}

// A disk that takes no metrics is no reason to lose the training.
void Trainer::write_metrics(const MetricsRow& row) {
  try {
    metrics_->write(row);
  } catch (const Error& error) {
    log_.warn(error.what(), "; training goes on, rows are missing");
  }
}

std::optional<double> Trainer::validate() {
  const index_t rounds = data::validation_rounds(datasets_.validation, share_);
  if (rounds == 0) return std::nullopt;
  const Timer timer;
  const std::int64_t limit = config_.train.evaluate_batches;
  double sums[] = {0, 0};  // loss, tokens
  for (index_t round = 0; round < (limit > 0 ? std::min(limit, rounds) : rounds);
       ++round) {
    data::Batch batch = data::read_validation_batch(datasets_.validation, share_, round);
    sums[0] += engine_.evaluate(model_input(batch, 0));
    sums[1] += static_cast<double>(batch.valid_tokens);
  }
  if (!grid_.counts_samples()) sums[0] = sums[1] = 0;
  const std::vector<double> all = grid_.world().all_gather(sums);
  double loss = 0, tokens = 0;
  for (std::size_t r = 0; r < all.size(); r += 2) {
    loss += all[r];
    tokens += all[r + 1];
  }
  loss /= std::max(1.0, tokens);
  if (std::isfinite(loss) &&
      (progress_.best_validation_step == 0 || loss < progress_.best_validation_loss)) {
    progress_.best_validation_loss = loss;
    progress_.best_validation_step = progress_.step;
  }
  validation_seconds_ += timer.seconds();
  interval_paused_ += timer.seconds();
  longest_validation_ = std::max(longest_validation_, timer.seconds());
  return loss;
}

void Trainer::save() {
  if (saved_step_ == progress_.step) return;
  if (!engine_.is_finite()) {
    fail_everywhere(Status::numerics, "a weight or moment is not finite after step ",
                    progress_.step,
                    "; it is not saved, the last checkpoint is from before: lower "
                    "optimizer.learning_rate");
  }
  const io::SaveReport report = checkpoints_.save(
      engine_.pieces(Engine::Copies::first), progress_,
      {.input = description_.resolved_input,
       .layout = cat(grid_.shape().text(), ", zero ", config_.parallel.zero),
       .version = description_.version,
       .hosts = description_.hosts});
  save_seconds_ += report.seconds;
  interval_paused_ += report.seconds;
  longest_save_ = std::max(longest_save_, report.seconds);
  if (report.saved) {
    saved_step_ = progress_.step;
    failed_saves_ = 0;
    ++saves_;
    log_.line("saved ", report.path, ": ", memory(report.bytes), " in ",
              std::lround(report.seconds * 1e3), " ms");
    return;
  }
  ++failed_saves_;
  log_.warn("the checkpoint of step ", progress_.step, " was not saved: ", report.fault);
  if (failed_saves_ >= config_.checkpoint.max_failures) {
    fail_everywhere(Status::io, failed_saves_,
                    " saves in a row failed (checkpoint.max_failures): ", report.fault);
  }
}

void Trainer::finish() {
  if (saved_step_ != progress_.step) {
    fail_everywhere(Status::io,
                    "training is finished, but its last checkpoint could not be saved");
  }
  sample();
  summarize("finished");
}

void Trainer::sample() {
  if (config_.train.sample_tokens == 0) return;
  const std::string text =
      generate_text(engine_, grid_.world(), config_.model,
                    {.prompt = config_.train.sample_prompt,
                     .tokens = config_.train.sample_tokens,
                     .temperature = config_.train.sample_temperature,
                     .seed = static_cast<std::uint64_t>(config_.run.seed)});
  log_.line("sample     ", printable(config_.train.sample_prompt + text));
}

void Trainer::summarize(const std::string& reason) {
  const double wall = wall_.seconds();
  const EngineTimes times = engine_.times();
  print_phases(log_, grid_.world(),
               {{"data", data_seconds_},
                {"forward+backward", times.forward_backward},
                {"communication", times.communication - times.pipeline},
                {"pipeline", times.pipeline},
                {"optimizer", times.optimizer},
                {"validation", validation_seconds_},
                {"saving", save_seconds_}},
               wall);
  log_.line("steps ", first_step_, " to ", progress_.step, " of ",
            description_.total_steps, ", ", trained_tokens_, " tokens in ",
            duration(wall), ", ",
            std::lround(static_cast<double>(trained_tokens_) / wall), " tok/s, ", saves_,
            " saves, ", skipped_steps_, " skipped steps");
  log_.line("memory of rank 0: ", memory(engine_.device().peak_bytes()),
            " allocated by the model, ", memory(peak_resident_bytes()),
            " resident at most");
  if (progress_.best_validation_step > 0) {
    log_.line("best validation loss ", progress_.best_validation_loss, " at step ",
              progress_.best_validation_step);
  }
  for (const std::string& warning : log_.warnings()) log_.line("warned: ", warning);
  log_.line("end: ", reason);
}

}  // namespace llmtrain
