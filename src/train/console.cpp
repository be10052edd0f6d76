#include "llmtrain/train/console.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace llmtrain {

namespace {

template <class... Args>
std::string format(const char* pattern, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

// Parameters of the model, however it is laid out.
index_t parameter_count(const Config& config) {
  Config whole = config;
  whole.parallel = {};
  whole.batch.global = whole.batch.micro;
  return Engine::plan(whole, GridShape{}, 0)->units().parameter_count();
}

// The ranks of a pipeline differ; replicas and tensor ranks allocate alike.
std::unique_ptr<Engine> largest_plan(const Config& config, const GridShape& shape) {
  const int stages = shape[Axis::pipeline];
  const int between_stages = shape.ranks() / shape[Axis::data] / stages;
  std::unique_ptr<Engine> largest;
  for (int stage = 0; stage < stages; ++stage) {
    auto plan = Engine::plan(config, shape, stage * between_stages);
    if (!largest || plan->device().peak_bytes() > largest->device().peak_bytes()) {
      largest = std::move(plan);
    }
  }
  return largest;
}

}  // namespace

std::string duration(double seconds) {
  const auto total = static_cast<long long>(std::max(0.0, seconds));
  const std::string clock =
      format("%02lld:%02lld:%02lld", total / 3600 % 24, total / 60 % 60, total % 60);
  return total < 86400 ? clock : format("%lld-", total / 86400) + clock;
}

std::string memory(index_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  return mib < 1024 ? format("%.1f MiB", mib) : format("%.2f GiB", mib / 1024);
}

void print_model(Log& log, const Config& config, const GridShape& shape) {
  const ModelConfig& model = config.model;
  const std::unique_ptr<Engine> engine = largest_plan(config, shape);
  log.line(format(
      "model      %s, %lld layers, width %lld, %lld heads (%lld key/value), "
      "mlp %lld, context %lld, vocabulary %lld",
      name(model.family), static_cast<long long>(model.layers),
      static_cast<long long>(model.width), static_cast<long long>(model.heads),
      static_cast<long long>(model.kv_heads), static_cast<long long>(model.mlp_width),
      static_cast<long long>(model.context), static_cast<long long>(model.vocabulary)));
  log.line(format(
      "           %.3f M parameters, %.2f MFLOP a token (6 N + 6 L C T, causal)",
      static_cast<double>(parameter_count(config)) / 1e6, flops_per_token(model) / 1e6));
  const PrecisionConfig& precision = config.precision;
  log.line("precision  ", name(precision.dtype), ", gradients ",
           name(precision.gradients), ", reduced in ", name(precision.reduction));
  std::string uses;
  for (int use = 0; use < kMemoryUses; ++use) {
    const auto which = static_cast<MemoryUse>(use);
    if (engine->device().peak_bytes(which) == 0) continue;
    uses += cat(uses.empty() ? "" : ", ", name(which), " ",
                memory(engine->device().peak_bytes(which)));
  }
  log.line("memory     a rank allocates ", shape[Axis::pipeline] > 1 ? "up to " : "",
           memory(engine->device().peak_bytes()), ": ", uses);
}

std::string step_line(const StepLine& line) {
  return format(
      "step %7lld/%lld  loss %8.5f  norm %8.4f  lr %.3e  %8.0f tok/s  %8.1f ms  "
      "%5.1f %% of peak  %s  left %s",
      static_cast<long long>(line.step), static_cast<long long>(line.total_steps),
      line.loss, line.gradient_norm, line.learning_rate, line.tokens_per_second,
      line.milliseconds, 100 * line.peak_share, memory(resident_bytes()).c_str(),
      duration(line.seconds_left).c_str());
}

void print_phases(Log& log, Communicator& world, const std::vector<Phase>& phases,
                  double wall_seconds) {
  std::vector<double> own;
  double accounted = 0;
  for (const Phase& phase : phases) {
    own.push_back(phase.seconds);
    accounted += phase.seconds;
  }
  own.push_back(wall_seconds - accounted);
  const std::vector<double> all = world.all_gather(own);
  log.line(
      "phase                     min s     mean s      max s   slowest rank    share");
  double mean_wall = 0;
  for (const double seconds : all) mean_wall += seconds / world.size();
  for (std::size_t i = 0; i < own.size(); ++i) {
    std::vector<double> ranks;
    for (int r = 0; r < world.size(); ++r) {
      ranks.push_back(all[static_cast<std::size_t>(r) * own.size() + i]);
    }
    const auto [least, most] = std::minmax_element(ranks.begin(), ranks.end());
    double mean = 0;
    for (const double seconds : ranks) mean += seconds / world.size();
    log.line(format("  %-18s %10.2f %10.2f %10.2f %14d  %6.1f %%",
                    i < phases.size() ? phases[i].name : "other", *least, mean, *most,
                    static_cast<int>(most - ranks.begin()), 100 * mean / mean_wall));
  }
}

index_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  index_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

index_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<index_t>(usage.ru_maxrss) * 1024;
}

}  // namespace llmtrain
