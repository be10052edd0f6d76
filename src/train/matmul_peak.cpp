#include "matmul_peak.hpp"

#include <algorithm>

#include "llmtrain/core/timer.hpp"
#include "llmtrain/ops/elementwise.hpp"
#include "llmtrain/ops/matmul.hpp"

namespace llmtrain {

double measure_matmul_peak(Communicator& world) {
  constexpr index_t kSize = 1024;
  constexpr double kSeconds = 0.1;
  Device device(DeviceKind::cpu);
  Arena operands(device, 3 * kSize * kSize * 4, MemoryUse::workspace);
  Arena scratch(device, index_t{1} << 20, MemoryUse::workspace);
  Context ctx{device, operands, scratch};
  const TensorView a = operands.allocate({kSize, kSize});
  const TensorView b = operands.allocate({kSize, kSize});
  const TensorView c = operands.allocate({kSize, kSize});
  ops::fill(ctx, a, 0.5f);
  ops::fill(ctx, b, 0.25f);
  world.barrier();
  double best = 1e30;
  for (const Timer all; all.seconds() < kSeconds;) {
    const Timer timer;
    ops::matmul(ctx, c, a, b, {.b = ops::Transpose::yes});
    best = std::min(best, timer.seconds());
  }
  const double own[] = {2.0 * kSize * kSize * kSize / best};
  double total = 0;
  for (const double rate : world.all_gather(own)) total += rate;
  return total;
}

}  // namespace llmtrain
