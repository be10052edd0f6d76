// llmtrain-bench: times optimizer steps on random tokens, without data, files or logging.
// `mpirun -np 2 llmtrain-bench --model.preset=gpt2-124m --batch.global=2 --train.steps=12`
// takes every key of an input file and prints one line of JSON for each step. With
// `--interactive` as the first argument it waits for a line on standard input before each step
// (utils/bench/bench.py).
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "app/runtime.hpp"
#include "llmtrain/app/options.hpp"
#include "llmtrain/comm/mpi_runtime.hpp"
#include "llmtrain/core/timer.hpp"
#include "llmtrain/train/console.hpp"
#include "llmtrain/train/engine.hpp"
#include "train/matmul_peak.hpp"

namespace llmtrain {
namespace {

Config read_config(int argc, char** argv, int ranks) {
  std::vector<const char*> arguments(argv, argv + argc);
  arguments.push_back("--data.train=none");  // required, and not opened here
  const auto line =
      app::parse_command_line(static_cast<int>(arguments.size()), arguments.data());
  return app::read_input(line, "", ranks).config;
}

// The micro-batches of one step of a rank, random and all valid.
class RandomStep {
 public:
  RandomStep(const Config& config, int rank, int ranks) {
    const Shape shape{config.batch.micro, config.model.context};
    std::mt19937 draw(static_cast<std::uint32_t>(rank + 1));
    const index_t count = config.batch.global / ranks / config.batch.micro;
    positions_.resize(static_cast<std::size_t>(shape[0]));
    for (index_t i = 0; i < count; ++i) {
      for (int tensor = 0; tensor < 2; ++tensor) {
        auto& ids = ids_.emplace_back(static_cast<std::size_t>(shape.count()));
        for (std::int32_t& id : ids) {
          id = static_cast<std::int32_t>(
              draw() % static_cast<std::uint32_t>(config.model.vocabulary));
        }
      }
    }
    for (std::size_t i = 0; i < ids_.size(); i += 2) {
      inputs_.push_back({.tokens = {ids_[i].data(), Dtype::i32, shape},
                         .labels = {ids_[i + 1].data(), Dtype::i32, shape},
                         .positions = positions_});
    }
    valid_tokens_ = shape.count() * count;
  }
  StepInput input(index_t step, const Config& config) const {
    return {.micro_batches = inputs_,
            .valid_tokens = valid_tokens_,
            .step = step,
            .applied_step = step + 1,
            .learning_rate = config.optimizer.learning_rate};
  }

 private:
  std::vector<std::vector<std::int32_t>> ids_;
  std::vector<std::uint32_t> positions_;
  std::vector<ModelInput> inputs_;
  index_t valid_tokens_ = 0;
};

void print_step(const Config& config, int ranks, int threads, double peak, double seconds,
                const StepOutcome& outcome, const EngineTimes& before,
                const EngineTimes& after) {
  const double rate =
      static_cast<double>(config.batch.global * config.model.context) / seconds;
  const auto ms = [&](double EngineTimes::*phase) {
    return (after.*phase - before.*phase) * 1e3;
  };
  std::printf(
      "{\"preset\": \"%s\", \"dtype\": \"%s\", \"ranks\": %d, \"threads\": %d, "
      "\"zero\": %d, \"tokens_per_second\": %.1f, \"ms\": %.2f, "
      "\"ms_forward_backward\": %.2f, \"ms_optimizer\": %.2f, \"ms_communication\": "
      "%.2f, "
      "\"peak_share\": %.4f, \"peak_rss\": %lld, \"loss\": %.6f}\n",
      config.model.preset.c_str(), name(config.precision.dtype), ranks, threads,
      static_cast<int>(config.parallel.zero), rate, seconds * 1e3,
      ms(&EngineTimes::forward_backward), ms(&EngineTimes::optimizer),
      ms(&EngineTimes::communication), rate * flops_per_token(config.model) / peak,
      static_cast<long long>(peak_resident_bytes()), outcome.loss);
  std::fflush(stdout);
}

// Whether there is to be another step: a line of rank 0's standard input. Collective.
bool is_told_to_go_on(Communicator& world) {
  int c = 0;
  if (world.rank() == 0) {
    do c = std::getchar();
    while (c != '\n' && c != EOF);
  }
  return world.broadcast(c == EOF ? "" : "go", 0) == "go";
}

void run(int argc, char** argv) {
  const bool interactive = argc > 1 && std::string(argv[1]) == "--interactive";
  if (interactive) std::swap(argv[0], argv[1]), ++argv, --argc;
  const auto world = make_world_communicator();
  Log log(world->rank() == 0);
  const Config config = read_config(argc, argv, world->size());
  const int threads = app::set_threads(*world, config.run.threads, log);
  const double peak = measure_matmul_peak(*world);
  GridShape shape;
  shape[Axis::data] = world->size();
  ProcessGrid grid(*world, shape);
  Engine engine(config, grid);
  const RandomStep step(config, world->rank(), world->size());
  for (index_t s = 0; s < config.train.steps; ++s) {
    if (interactive && !is_told_to_go_on(*world)) return;
    world->barrier();
    const EngineTimes before = engine.times();
    const Timer timer;
    const StepOutcome outcome = engine.train_step(step.input(s, config));
    const double seconds = timer.seconds();
    if (world->rank() != 0) continue;
    print_step(config, world->size(), threads, peak, seconds, outcome, before,
               engine.times());
  }
}

}  // namespace
}  // namespace llmtrain

int main(int argc, char** argv) {
  using namespace llmtrain;
  const MpiRuntime mpi(&argc, &argv);
  try {
    run(argc, argv);
  } catch (const Error& error) {
    std::fprintf(stderr, "llmtrain-bench: %s\n", error.what());
    MpiRuntime::abort(error.status());
  }
  return 0;
}
