// llmtrain: trains decoder-only language models. `mpirun -np 8 ./llmtrain --input run.ini`
#include <cstdio>
#include <exception>
#include <filesystem>

#include "app/runtime.hpp"
#include "app/version.hpp"
#include "llmtrain/app/options.hpp"
#include "llmtrain/comm/mpi_runtime.hpp"
#include "llmtrain/config/run_length.hpp"
#include "llmtrain/train/console.hpp"
#include "llmtrain/train/trainer.hpp"

namespace llmtrain {
namespace {

// An error that every rank has is told once and all end in order; any other ends the job.
Status report(const Error& error, Communicator& world) {
  if (error.reach() == Reach::every_rank || world.size() == 1) {
    if (world.rank() == 0) std::fprintf(stderr, "llmtrain: %s\n", error.what());
    return error.status();
  }
  std::fprintf(stderr, "llmtrain: [rank %d on %s] %s\n", world.rank(),
               app::host_name().c_str(), error.what());
  MpiRuntime::abort(error.status());
}

// The status of `work`, or of the error that it ends with.
template <class Work>
Status guarded(Communicator& world, Work work) {
  try {
    return work();
  } catch (const Error& error) {
    return report(error, world);
  } catch (const std::exception& error) {
    return report(Error(Status::internal, error.what()), world);
  }
}

app::Input read_input(const app::CommandLine& line, Communicator& world) {
  std::string text;
  app::together(world, [&] {
    if (world.rank() == 0) text = app::read_input_file(line.input);
  });
  text = world.broadcast(text, 0);
  app::Input input;
  app::together(world, [&] { input = app::read_input(line, text, world.size()); });
  return input;
}

// Makes the directory and holds it, on rank 0, for the life of the result.
std::unique_ptr<app::RunLock> take_directory(const char* key,
                                             const std::string& directory,
                                             Communicator& world, Log& log) {
  std::unique_ptr<app::RunLock> lock;
  app::together(world, [&] {
    if (world.rank() != 0) return;
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) {
      fail(Status::io, key, " = ", directory, ": cannot be made: ", error.message());
    }
    lock = std::make_unique<app::RunLock>(key, directory, log);
  });
  return lock;
}

void print_data(Log& log, const Config& config, const data::Datasets& datasets,
                index_t total_steps) {
  const double epochs = static_cast<double>(total_steps * config.batch.global) /
                        static_cast<double>(datasets.train.samples());
  log.line("data       ", datasets.train.samples(), " samples of ", config.model.context,
           " tokens to train on, ", datasets.validation.samples(), " to validate on");
  log.line("run        ", total_steps, " steps of ", config.batch.global, " samples (",
           total_steps * config.batch.global * config.model.context, " tokens, ", epochs,
           " epochs), micro-batch ", config.batch.micro);
}

Status check(const app::Input& input, Communicator& world, Log& log) {
  print_model(log, input.config, grid_shape(input.config.parallel, world.size()));
  log.line("check      the input is valid");
  return Status::finished;
}

Status run(const app::CommandLine& line, Communicator& world, StopRequests& requests,
           Log& log, const Timer& started) {
  const app::Input input = read_input(line, world);
  const Config& config = input.config;
  log.line(app::version_text());
  const int threads = app::set_threads(world, config.run.threads, log);
  const std::string hosts = app::describe_hosts(world, threads);
  log.line("ranks      ", hosts, "; ", grid_shape(config.parallel, world.size()).text(),
           ", zero ", config.parallel.zero);
  log.line(app::echo(input));

  data::Datasets datasets;
  index_t total_steps = 0;
  app::together(world, [&] {
    datasets =
        data::open_datasets(config.data, config.model.context, config.model.vocabulary);
    total_steps = llmtrain::total_steps(config.train, datasets.train.samples(),
                                        config.batch.global, config.model.context);
    app::check_schedule(input, total_steps);
  });
  print_data(log, config, datasets, total_steps);
  if (line.mode == app::Mode::check) return check(input, world, log);

  const auto lock = take_directory("run.directory", config.run.directory, world, log);
  std::unique_ptr<app::RunLock> checkpoint_lock;
  if (config.checkpoint.directory != config.run.directory + "/checkpoints") {
    checkpoint_lock =
        take_directory("checkpoint.directory", config.checkpoint.directory, world, log);
  }
  ProcessGrid grid(world, grid_shape(config.parallel, world.size()));
  const RunDescription description{
      .resolved_input = app::resolved_ini(config),
      .version = app::version(),
      .hosts = hosts,
      .total_steps = total_steps,
      .wall_seconds =
          static_cast<double>(wall_time_seconds(config.run.wall_time).value_or(0)),
      .started = started};
  // The grid's end is collective: an error of one rank must end the job before it.
  return guarded(world, [&] {
    return Trainer(config, description, grid, datasets, requests, log).run();
  });
}

Status start(int argc, char** argv, Communicator& world, StopRequests& requests, Log& log,
             const Timer& started) {
  app::CommandLine line;
  app::together(world, [&] { line = app::parse_command_line(argc, argv); });
  switch (line.mode) {
    case app::Mode::help:
      log.line(app::help_text());
      return Status::finished;
    case app::Mode::version:
      log.line(app::version_text());
      return Status::finished;
    case app::Mode::print_reference:
      log.line(app::reference_ini());
      return Status::finished;
    case app::Mode::train:
    case app::Mode::check:
      return run(line, world, requests, log, started);
  }
  return Status::internal;
}

}  // namespace
}  // namespace llmtrain

int main(int argc, char** argv) {
  using namespace llmtrain;
  const Timer started;
  StopRequests requests;
  try {
    MpiRuntime mpi(&argc, &argv);
    const auto world = make_world_communicator();
    Log log(world->rank() == 0);
    return static_cast<int>(guarded(
        *world, [&] { return start(argc, argv, *world, requests, log, started); }));
  } catch (const Error& error) {  // without MPI nobody else can be told
    std::fprintf(stderr, "llmtrain: %s\n", error.what());
    return static_cast<int>(error.status());
  }
}
