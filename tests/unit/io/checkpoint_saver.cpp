// checkpoint_saver DIRECTORY [PHASE [RANK]]: resumes, then saves step after step and
// announces each on standard output, until it is killed. With PHASE (a number) it kills
// itself when its third save enters that phase, or after -PHASE microseconds; with RANK it
// is a program of several ranks, of which that one dies.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>

#include "llmtrain/comm/mpi_runtime.hpp"
#include "llmtrain/io/checkpoint.hpp"
#include "unit/io/synthetic_state.hpp"

int main(int argc, char** argv) {
  using namespace llmtrain;
  using namespace llmtrain::io;
  if (argc < 2) return 2;
  const bool several = argc > 3;
  std::optional<MpiRuntime> mpi;
  if (several) mpi.emplace(&argc, &argv);
  const auto world = several ? make_world_communicator() : make_self_communicator();
  const int phase_of_death = argc > 2 ? std::atoi(argv[2]) : -1;
  const bool victim = argc > 2 && (!several || world->rank() == std::atoi(argv[3]));
  if (victim && phase_of_death < 0) {
    std::thread([=] {
      std::this_thread::sleep_for(std::chrono::microseconds(-phase_of_death));
      ::kill(::getpid(), SIGKILL);
    }).detach();
  }

  Log log(false);
  CheckpointStore store(*world, argv[1], {}, log);
  const auto path = store.find();
  std::int64_t step = path ? store.read_progress(*path).step : 0;
  int saves = 0;
  store.on_phase([&](SavePhase phase) {
    if (victim && saves == 3 && static_cast<int>(phase) == phase_of_death) {
      ::kill(::getpid(), SIGKILL);
    }
  });
  for (;;) {
    ++step, ++saves;
    Held held = cut({world->size(), 1}, world->rank(), Replicas::once);
    fill(held, step);
    if (!store.save(held.pieces, synthetic_progress(step), {}).saved) return 74;
    if (world->rank() != 0) continue;
    std::printf("saved %lld\n", static_cast<long long>(step));
    std::fflush(stdout);
  }
}
