#include "app/options_check.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "app/options_faults.hpp"
#include "app/options_rows.hpp"
#include "app/options_values.hpp"
#include "llmtrain/config/run_length.hpp"
#include "llmtrain/data/dataset.hpp"
#include "llmtrain/model/partition.hpp"

namespace llmtrain::app {

namespace {

constexpr index_t kLargestHeadDim = 256;  // of the attention kernels

// "key = 12", and " or 18" where that is within reach.
std::string multiples_around(const char* key, index_t value, index_t factor) {
  const index_t below = value / factor * factor;
  return cat(key, " = ", below > 0 ? cat(below, " or ") : "", below + factor);
}

class Conflicts {
 public:
  explicit Conflicts(const Input& input)
      : input_(input), config_(input.config), rows_(rows(config_)) {}

  // The first key heads the line; the line's place is that of the first key that somebody
  // has set.
  template <class... Text>
  void add(std::vector<std::string> keys, const Text&... text) {
    std::string place = input_.name;
    for (const std::string& key : keys) {
      const std::string& candidate = input_.places.at(key);
      if (candidate == "default" || candidate == "derived") continue;
      place = candidate == "preset" ? input_.places.at("model.preset") : candidate;
      break;
    }
    const std::string value = find_row(rows_, keys.front())->text();
    std::string line = cat(place, ": ", keys.front(), " = ", shown(value), ": ", text...);
    found_.push_back({std::move(keys), std::move(line)});
  }

  std::vector<Conflict> take() { return std::move(found_); }

 private:
  const Input& input_;
  Config config_;  // what rows_ stand on
  std::vector<Row> rows_;
  std::vector<Conflict> found_;
};

void check_model(Conflicts& conflicts, const Config& config) {
  const ModelConfig& model = config.model;
  if (model.width % model.heads != 0) {
    conflicts.add({"model.width", "model.heads"},
                  "must be a multiple of model.heads = ", model.heads,
                  "; hint: ", multiples_around("model.width", model.width, model.heads));
  } else if (model.family == ModelFamily::llama && model.head_dim() % 2 != 0) {
    conflicts.add({"model.width", "model.heads", "model.family"},
                  "must be an even multiple of model.heads = ", model.heads,
                  " with model.family = llama, whose RoPE turns pairs; hint: ",
                  multiples_around("model.width", model.width, 2 * model.heads));
  } else if (model.head_dim() > kLargestHeadDim) {
    conflicts.add(
        {"model.width", "model.heads"}, "with model.heads = ", model.heads,
        " a head has ", model.head_dim(), " elements; allowed: up to ", kLargestHeadDim,
        "; hint: model.heads = ", divide_up(model.width, kLargestHeadDim), " or more");
  }
  if (model.heads % model.kv_heads != 0) {
    index_t divisor = std::min(model.kv_heads, model.heads);
    while (model.heads % divisor != 0) --divisor;
    conflicts.add({"model.heads", "model.kv_heads"},
                  "must be a multiple of model.kv_heads = ", model.kv_heads,
                  "; hint: model.kv_heads = ", divisor);
  }
}

void check_data(Conflicts& conflicts, const Config& config) {
  const DataConfig& source = config.data;
  const index_t fixed = data::format_vocabulary(source.format);
  const std::vector<std::string> keys = {"model.vocabulary", "data.format"};
  if (config.model.vocabulary == 0) {
    conflicts.add(keys, "must be set with data.format = ", name(source.format),
                  "; hint: 50257 for the ids of GPT-2");
  } else if (config.model.vocabulary < fixed) {
    conflicts.add(keys, "must be at least ", fixed,
                  " with data.format = ", name(source.format),
                  "; hint: model.vocabulary = 0 takes that");
  }
  if (source.train.empty()) {
    conflicts.add({"data.train"}, "must name the training data; hint: --data.train=FILE");
  }
  if (!source.validation.empty() && source.validation_fraction > 0) {
    conflicts.add({"data.validation_fraction", "data.validation"},
                  "must be 0 where data.validation = ", shown(source.validation),
                  " is given; hint: leave one of them out");
  }
  if (config.train.sample_tokens > 0 && source.format != DataFormat::text) {
    conflicts.add({"train.sample_tokens", "data.format"},
                  "needs data.format = text, whose ids are bytes, not ",
                  name(source.format), "; hint: train.sample_tokens = 0");
  }
}

// Whether the axes' product is the number of ranks.
bool check_grid(Conflicts& conflicts, const ParallelConfig& parallel, index_t ranks) {
  const index_t others = parallel.tensor * parallel.pipeline;
  if (ranks % others == 0 && (parallel.data == 0 || parallel.data * others == ranks)) {
    return true;
  }
  conflicts.add({"parallel.tensor", "parallel.pipeline", "parallel.data"},
                "with parallel.data = ", parallel.data,
                " and parallel.pipeline = ", parallel.pipeline, ", but the job has ",
                ranks,
                " ranks; allowed: parallel.data * parallel.pipeline * parallel.tensor = "
                "ranks; hint: ",
                ranks % others == 0 ? cat("parallel.data = ", ranks / others)
                                    : cat("mpirun -np ", (ranks / others + 1) * others));
  return false;
}

void check_tensor(Conflicts& conflicts, const ModelConfig& model, index_t ranks) {
  const auto add = [&](const char* key, index_t value, index_t allowed) {
    conflicts.add({"parallel.tensor", key}, "must divide ", key, " = ", value,
                  "; hint: parallel.tensor = ", allowed);
  };
  const auto check = [&](const char* key, index_t value) {
    if (value % ranks != 0) add(key, value, std::gcd(value, ranks));
  };
  check("model.heads", model.heads);
  check("model.mlp_width", model.mlp_width);
  if (model.kv_heads % ranks != 0 && ranks % model.kv_heads != 0) {
    conflicts.add({"parallel.tensor", "model.kv_heads"},
                  "must divide or be a multiple of model.kv_heads = ", model.kv_heads,
                  "; hint: parallel.tensor = ", std::gcd(model.kv_heads, ranks));
  }
  if (model.padded_vocabulary() % ranks != 0) {
    conflicts.add({"parallel.tensor", "model.vocabulary_multiple"},
                  "must divide the padded vocabulary, ", model.padded_vocabulary(),
                  "; hint: model.vocabulary_multiple = ",
                  std::lcm(model.vocabulary_multiple, ranks));
  }
}

void check_pipeline(Conflicts& conflicts, const Config& config, index_t replicas) {
  const ParallelConfig& parallel = config.parallel;
  const bool interleaved = parallel.schedule == PipelineSchedule::interleaved;
  if (parallel.chunks > 1 && !interleaved) {
    conflicts.add({"parallel.chunks", "parallel.schedule"},
                  "needs parallel.schedule = interleaved, not ", name(parallel.schedule));
  }
  if (parallel.chunks > 1 && parallel.pipeline == 1) {
    conflicts.add({"parallel.chunks", "parallel.pipeline"},
                  "needs several ranks in the pipeline; hint: parallel.chunks = 1");
  }
  const index_t micro_batches =
      config.batch.global / replicas / std::max<index_t>(1, config.batch.micro);
  if (interleaved && micro_batches % parallel.pipeline != 0) {
    conflicts.add(
        {"parallel.schedule", "parallel.pipeline", "batch.micro", "batch.global"},
        "needs a number of micro-batches, now ", micro_batches,
        ", that parallel.pipeline = ", parallel.pipeline,
        " divides; hint: another batch.micro, or parallel.schedule = 1f1b");
  }
  const index_t parts = parallel.pipeline * parallel.chunks;
  if (parts > config.model.layers) {
    conflicts.add({"parallel.pipeline", "parallel.chunks", "model.layers"},
                  "with parallel.chunks = ", parallel.chunks,
                  " there are more parts than model.layers = ", config.model.layers);
    return;
  }
  try {
    model_parts(config.model, static_cast<int>(parts), parallel.blocks);
  } catch (const Error&) {
    conflicts.add({"parallel.blocks", "parallel.pipeline", "parallel.chunks"}, "must be ",
                  parts,
                  " numbers from 1, separated by commas, that add up to "
                  "model.layers = ",
                  config.model.layers, "; hint: leave it empty");
  }
}

// `ranks`: replicas.
void check_batch(Conflicts& conflicts, const BatchConfig& batch, index_t ranks) {
  if (batch.global % ranks != 0) {
    conflicts.add({"batch.global"},
                  "must be a multiple of the number of data-parallel ranks, ", ranks,
                  "; hint: ", multiples_around("batch.global", batch.global, ranks),
                  ", or ", std::gcd(batch.global, ranks), " of them");
    return;
  }
  const index_t of_rank = batch.global / ranks;
  if (of_rank % batch.micro == 0) return;
  index_t divisor = std::min(batch.micro, of_rank);
  while (of_rank % divisor != 0) --divisor;
  conflicts.add(
      {"batch.global", "batch.micro"},
      "is not equal to batch.micro * accumulation steps * ranks = ", batch.micro,
      " * n * ", ranks, " for any n; hint: batch.micro = ", divisor, ", or ",
      multiples_around("batch.global", batch.global, batch.micro * ranks));
}

void check_schedule(Conflicts& conflicts, const Config& config, index_t total) {
  const ScheduleConfig& schedule = config.schedule;
  const std::vector<std::string> length = {"train.steps", "train.epochs", "train.tokens"};
  const auto keys = [&length](std::vector<std::string> of_schedule) {
    of_schedule.insert(of_schedule.end(), length.begin(), length.end());
    return of_schedule;
  };
  if (schedule.warmup_steps > total) {
    conflicts.add(keys({"schedule.warmup_steps"}), "must be at most the run's ", total,
                  " steps; hint: schedule.warmup_steps = ", total / 20);
  } else if (schedule.kind == ScheduleKind::wsd &&
             schedule.decay_steps > total - schedule.warmup_steps) {
    conflicts.add(
        keys({"schedule.decay_steps", "schedule.warmup_steps"}),
        "must be at most the run's ", total,
        " steps without schedule.warmup_steps = ", schedule.warmup_steps,
        "; hint: schedule.decay_steps = ", (total - schedule.warmup_steps + 4) / 5);
  }
}

void check_length(Conflicts& conflicts, const Config& config) {
  const TrainConfig& train = config.train;
  const std::vector<std::string> keys = {"train.steps", "train.epochs", "train.tokens"};
  const int given = (train.steps > 0) + (train.epochs > 0) + (train.tokens > 0);
  if (given != 1) {
    conflicts.add(keys,
                  "exactly one of train.steps, train.epochs = ", shortest(train.epochs),
                  " and train.tokens = ", train.tokens, " must be above 0; hint: ",
                  given == 0 ? "--train.steps=1000" : "set the others to 0");
    return;
  }
  if (train.epochs > 0) return;
  try {
    check_schedule(conflicts, config,
                   total_steps(train, 0, config.batch.global, config.model.context));
  } catch (const Error& error) {
    conflicts.add({"train.tokens"}, error.what());
  }
}

void check_precision(Conflicts& conflicts, const PrecisionConfig& precision) {
  if (precision.gradients != Precision::f32 && precision.gradients != precision.dtype) {
    conflicts.add({"precision.gradients", "precision.dtype"},
                  "must be f32 or precision.dtype = ", name(precision.dtype),
                  "; hint: precision.gradients = f32");
  }
  if (precision.reduction == Precision::fp16 && precision.dtype != Precision::fp16) {
    conflicts.add(
        {"precision.reduction", "precision.dtype"},
        "needs precision.dtype = fp16, whose loss scale keeps small gradients from "
        "vanishing; hint: precision.reduction = bf16");
  }
  if (precision.loss_scale < precision.loss_scale_minimum) {
    conflicts.add({"precision.loss_scale", "precision.loss_scale_minimum"},
                  "must be at least precision.loss_scale_minimum = ",
                  shortest(precision.loss_scale_minimum));
  }
}

void check_rates(Conflicts& conflicts, const Config& config) {
  if (config.schedule.minimum > config.optimizer.learning_rate) {
    conflicts.add({"schedule.minimum", "optimizer.learning_rate"},
                  "must be at most optimizer.learning_rate = ",
                  shortest(config.optimizer.learning_rate));
  }
  if (config.schedule.kind == ScheduleKind::wsd && config.schedule.decay_steps == 0) {
    conflicts.add({"schedule.decay_steps", "schedule.kind"},
                  "must be above 0 with schedule.kind = wsd; hint: a fifth of the steps");
  }
}

}  // namespace

bool Conflict::involves(const std::set<std::string>& faulty) const {
  return std::ranges::any_of(keys, [&faulty](const std::string& key) {
    return faulty.contains(key) ||
           (key.starts_with("model.") && faulty.contains("model.preset"));
  });
}

std::vector<Conflict> conflicts(const Input& input, int ranks) {
  Conflicts found(input);
  const Config& config = input.config;
  if (config.run.device == DeviceChoice::cuda) {
    found.add({"run.device"},
              "this version trains on CPUs only; hint: run.device = auto");
  }
  check_model(found, config);
  check_data(found, config);
  if (check_grid(found, config.parallel, ranks)) {
    check_tensor(found, config.model, config.parallel.tensor);
    const index_t replicas = ranks / (config.parallel.tensor * config.parallel.pipeline);
    check_batch(found, config.batch, replicas);
    check_pipeline(found, config, replicas);
  }
  check_length(found, config);
  check_rates(found, config);
  check_precision(found, config.precision);
  return found.take();
}

void check_schedule(const Input& input, index_t total_steps) {
  Conflicts found(input);
  check_schedule(found, input.config, total_steps);
  std::vector<Fault> faults;
  for (const Conflict& conflict : found.take()) {
    faults.push_back({kAfterFile, conflict.text});
  }
  throw_if_any(std::move(faults));
}

}  // namespace llmtrain::app
