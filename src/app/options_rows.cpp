// The table of keys: one row a key. A struct of the configuration that gets a field gets
// a row here, and nothing else.
#include "app/options_rows.hpp"

#include <algorithm>
#include <cctype>
#include <limits>

#include "app/options_values.hpp"
#include "llmtrain/config/run_length.hpp"

namespace llmtrain::app {

namespace {

// The largest below 1 that is not 1 in f32, where AdamW computes.
constexpr double kLargestBeta = 0.9999999;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

bool anything(const std::string&) { return true; }
constexpr const char* kText = "text on one line";
constexpr const char* kPath = "a path without quotes";
bool is_path(const std::string& text) {
  return !text.starts_with('"') && !text.starts_with('\'');
}
bool is_folder(const std::string& text) { return !text.empty() && is_path(text); }

bool is_preset(const std::string& text) {
  ModelConfig scratch;
  scratch.preset = text;
  return apply_preset(scratch);
}

bool is_wall_time(const std::string& text) {
  return text.empty() || wall_time_seconds(text).has_value();
}

// A path is told from a misspelt word by its slash.
bool is_resume(const std::string& text) {
  const bool digits = !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isdigit(c) != 0;
  });
  return text == "auto" || text == "none" || text.find('/') != std::string::npos ||
         (digits && text.size() <= 10);
}

}  // namespace

// clang-format off
std::vector<Row> rows(Config& c) {
  return {
    text("run.directory", c.run.directory, kPath, is_folder,
         "folder of metrics, checkpoints and the files STOP and SAVE; made if missing"),
    integer("run.seed", c.run.seed, 0, kLargest, "",
            "seed of initial weights, order of data and dropout"),
    choice("run.device", c.run.device, kDeviceChoices,
           "where the maths runs; this version trains on CPUs only"),
    integer("run.threads", c.run.threads, 0, 4096, "threads",
            "OpenMP threads of a rank; 0: the cores that it may use"),
    text("run.wall_time", c.run.wall_time, "empty, hh:mm:ss or d-hh:mm:ss", is_wall_time,
         "time after which the run saves and stops with status 75; empty: no limit"),

    text("model.preset", c.model.preset, "one of " + preset_names(), is_preset,
         "a published shape; the other model keys change it"),
    choice("model.family", c.model.family, kModelFamilies,
           "gpt2: learned positions, LayerNorm, GELU; llama: RoPE, RMSNorm, SwiGLU"),
    integer("model.layers", c.model.layers, 1, 1024, "blocks", "number of blocks"),
    integer("model.heads", c.model.heads, 1, 1024, "heads", "number of attention heads"),
    integer("model.kv_heads", c.model.kv_heads, 0, 1024, "heads",
            "heads of keys and values; 0: as many as model.heads"),
    integer("model.width", c.model.width, 1, 131072, "elements",
            "width of the residual stream; a multiple of model.heads"),
    integer("model.mlp_width", c.model.mlp_width, 0, 1048576, "elements",
            "inner width of the MLP; 0: 4 width (gpt2), 8/3 width up to 64s (llama)"),
    integer("model.context", c.model.context, 1, 1048576, "tokens",
            "length of a sequence"),
    integer("model.vocabulary", c.model.vocabulary, 0, 16777216, "ids",
            "number of token ids; 0: what data.format fixes"),
    integer("model.vocabulary_multiple", c.model.vocabulary_multiple, 1, 65536, "ids",
            "the embedding is padded to a multiple of this in memory"),
    boolean("model.tied", c.model.tied, "whether the head uses the embedding's weight"),
    real("model.dropout", c.model.dropout, {0, 1, false, true}, "",
         "share of elements dropped from embedding, attention and residuals"),
    real("model.norm_epsilon", c.model.norm_epsilon, {0, 1, true}, "",
         "added to the variance in LayerNorm and RMSNorm"),
    real("model.rope_theta", c.model.rope_theta, {1, 1e15}, "",
         "base of the rotary positions of llama"),
    choice("model.init", c.model.init, kWeightInits, "distribution of initial weights"),
    real("model.init_std", c.model.init_std, {0, 10, true}, "",
         "standard deviation of model.init = normal"),

    choice("data.format", c.data.format, kDataFormats,
           "text: any bytes; llmc: token shards of llm.c; raw: token ids without header"),
    text("data.train", c.data.train, kPath, is_path,
         "file of training data, or a pattern such as data/*.bin; required"),
    text("data.validation", c.data.validation, kPath, is_path,
         "file of validation data, or a pattern"),
    real("data.validation_fraction", c.data.validation_fraction, {0, 1, false, true}, "",
         "last part of the training samples that is held out for validation"),
    number_of("data.token_bytes", c.data.token_bytes, {2, 4}, "bytes",
              "size of an id in files of data.format = raw"),
    choice("data.order", c.data.order, kDataOrders,
           "shuffled in each epoch, sequential, or as PyTorch's DistributedSampler"),
    boolean("data.document_mask", c.data.document_mask,
            "whether attention and labels stay within a document"),
    integer("data.end_of_text", c.data.end_of_text, -1, 2147483647, "",
            "id that ends a document; -1: what data.format says"),

    integer("batch.global", c.batch.global, 1, 16777216, "sequences",
            "sequences of an optimizer step over all ranks"),
    integer("batch.micro", c.batch.micro, 0, 16777216, "sequences",
            "sequences that a rank computes at once; 0: batch.global / ranks"),

    choice("precision.dtype", c.precision.dtype, kPrecisions,
           "of weights and activations; 16-bit weights have f32 masters"),
    choice("precision.gradients", c.precision.gradients, kPrecisions,
           "in which gradients of weights are summed: f32 or precision.dtype"),
    choice("precision.reduction", c.precision.reduction, kPrecisions,
           "in which gradients travel between ranks; their sum is f32, rounded once"),
    real("precision.loss_scale", c.precision.loss_scale, {0, 1e30, true}, "",
         "first scale of the loss; this and what follows only for dtype = fp16"),
    real("precision.loss_scale_growth", c.precision.loss_scale_growth, {1, 1e6, true}, "",
         "factor after precision.loss_scale_interval steps without overflow"),
    real("precision.loss_scale_backoff", c.precision.loss_scale_backoff, {0, 1, true, true},
         "", "factor after an overflow, whose step is skipped"),
    integer("precision.loss_scale_interval", c.precision.loss_scale_interval, 1,
            kMaximumSteps, "steps", "steps without overflow before the scale grows"),
    real("precision.loss_scale_minimum", c.precision.loss_scale_minimum, {0, 1e30, true},
         "", "floor of the scale; there an overflow counts as a non-finite step"),

    real("optimizer.learning_rate", c.optimizer.learning_rate, {0, 100, true}, "",
         "largest learning rate of the schedule"),
    real("optimizer.beta1", c.optimizer.beta1, {0, kLargestBeta}, "",
         "AdamW's decay of the first moment"),
    real("optimizer.beta2", c.optimizer.beta2, {0, kLargestBeta}, "",
         "AdamW's decay of the second moment"),
    real("optimizer.epsilon", c.optimizer.epsilon, {0, 1, true}, "",
         "added to the root of AdamW's second moment"),
    real("optimizer.weight_decay", c.optimizer.weight_decay, {0, 1000}, "",
         "decoupled decay of matrices and embeddings"),
    real("optimizer.clip_norm", c.optimizer.clip_norm, {0, 1e30}, "",
         "largest norm of the gradient; 0: no clipping"),
    real("optimizer.clip_order", c.optimizer.clip_order, {1, kInfinity}, "",
         "order of that norm; inf: the largest element"),
    integer("optimizer.max_skipped", c.optimizer.max_skipped, 0, 1000000, "steps",
            "consecutive non-finite steps before the run stops with status 76"),

    choice("schedule.kind", c.schedule.kind, kScheduleKinds,
           "course of the learning rate; wsd: warm-up, stable, decay"),
    integer("schedule.warmup_steps", c.schedule.warmup_steps, 0, kMaximumSteps, "steps",
            "first steps, in which the learning rate rises"),
    integer("schedule.decay_steps", c.schedule.decay_steps, 0, kMaximumSteps, "steps",
            "last steps, in which the learning rate of wsd falls"),
    choice("schedule.decay_shape", c.schedule.decay_shape, kDecayShapes,
           "how the learning rate of wsd falls"),
    real("schedule.minimum", c.schedule.minimum, {0, 100}, "",
         "learning rate at the end; at most optimizer.learning_rate"),
    real("schedule.cycles", c.schedule.cycles, {0, 1000, true}, "periods",
         "periods of the cosine; 0.5: falling only"),

    integer("train.steps", c.train.steps, 0, kMaximumSteps, "steps",
            "length of the run; set exactly one of steps, epochs and tokens"),
    real("train.epochs", c.train.epochs, {0, 1e6}, "epochs",
         "length of the run as passes over the training data"),
    integer("train.tokens", c.train.tokens, 0, 1000000000000000000, "tokens",
            "length of the run as tokens over all ranks"),
    integer("train.log_every", c.train.log_every, 1, kMaximumSteps, "steps",
            "steps between two lines of the log"),
    integer("train.evaluate_every", c.train.evaluate_every, 0, kMaximumSteps, "steps",
            "steps between two evaluations; 0: only at the end"),
    integer("train.evaluate_batches", c.train.evaluate_batches, 0, kMaximumSteps,
            "batches", "validation batches of a rank in an evaluation; 0: all"),
    text("train.sample_prompt", c.train.sample_prompt, kText, anything,
         "text that the finished model continues"),
    integer("train.sample_tokens", c.train.sample_tokens, 0, 1048576, "tokens",
            "length of that sample; 0: no sample"),
    real("train.sample_temperature", c.train.sample_temperature, {0, 100}, "",
         "divides the sample's logits; 0: always the likeliest token"),

    integer("parallel.zero", c.parallel.zero, 0, 3, "",
            "ZeRO stage: 1 shards the moments, 2 gradients too, 3 weights too"),

    text("checkpoint.directory", c.checkpoint.directory, kPath, is_path,
         "folder of the checkpoints; empty: checkpoints in run.directory"),
    integer("checkpoint.every", c.checkpoint.every, 0, kMaximumSteps, "steps",
            "steps between two checkpoints; 0: only at the end or on request"),
    integer("checkpoint.keep", c.checkpoint.keep, 1, 1000000, "checkpoints",
            "how many of the newest stay"),
    integer("checkpoint.keep_every", c.checkpoint.keep_every, 0, kMaximumSteps, "steps",
            "checkpoints of every so many steps stay for ever; 0: none"),
    text("checkpoint.resume", c.checkpoint.resume,
         "auto, none, a step number, or a path with a slash", is_resume,
         "where to go on: the newest good checkpoint, from scratch, or a named one"),
    choice("checkpoint.verify", c.checkpoint.verify, kVerifyModes,
           "what is checked before resuming: digests of all files, or only their sizes"),
    integer("checkpoint.max_failures", c.checkpoint.max_failures, 1, 1000000, "saves",
            "consecutive failed saves before the run stops with status 74"),
  };
}
// clang-format on

const std::vector<Row>& default_rows() {
  static Config defaults;
  static const std::vector<Row> result = rows(defaults);
  return result;
}

const Row* find_row(const std::vector<Row>& rows, std::string_view key) {
  const auto row = std::ranges::find(rows, key, &Row::key);
  return row == rows.end() ? nullptr : &*row;
}

}  // namespace llmtrain::app
