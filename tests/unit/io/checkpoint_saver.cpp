// checkpoint_saver DIRECTORY [PHASE]: resumes, then saves step after step and announces each
// on standard output, until it is killed; with PHASE (a number) it kills itself when its
// third save enters that phase.
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "llmtrain/io/checkpoint.hpp"
#include "unit/io/synthetic_state.hpp"

int main(int argc, char** argv) {
  using namespace llmtrain;
  using namespace llmtrain::io;
  if (argc < 2) return 2;
  const auto self = make_self_communicator();
  Log log(false);
  CheckpointStore store(*self, argv[1], {}, log);
  const auto path = store.find();
  std::int64_t step = path ? store.read_progress(*path).step : 0;
  int saves = 0;
  store.on_phase([&](SavePhase phase) {
    if (argc > 2 && saves == 3 && static_cast<int>(phase) == std::atoi(argv[2])) {
      std::raise(SIGKILL);
    }
  });
  for (;;) {
    ++step, ++saves;
    Held held = cut({1, 1}, 0, Replicas::once);
    fill(held, step);
    if (!store.save(held.pieces, synthetic_progress(step), {}).saved) return 74;
    std::printf("%lld\n", static_cast<long long>(step));
    std::fflush(stdout);
  }
}
