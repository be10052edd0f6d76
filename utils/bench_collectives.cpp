// llmtrain-bench-collectives [largest MiB]: the communicator's all_reduce, by the fastest
// way within a node and by the shared stage, beside MPI_Allreduce, interleaved in one
// run, medians. `mpirun -np 2 llmtrain-bench-collectives`
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/comm/mpi_runtime.hpp"
#include "llmtrain/core/timer.hpp"
#include "llmtrain/device/device.hpp"

namespace llmtrain {
namespace {

constexpr int kRounds = 9;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Work>
double seconds(Communicator& world, Work work) {
  world.barrier();
  const Timer timer;
  work();
  world.barrier();
  return timer.seconds();
}

void measure(Communicator& world, Communicator& staged, index_t elements) {
  Device device(DeviceKind::cpu, Sharing::node);
  // Filled: pages that were never written are one page of zeros, which no cache misses.
  const auto buffer = [&](MemoryUse use) {
    Buffer result = device.allocate(elements * 4, use);
    std::fill_n(result.floats().data<float>(), elements, 1e-20f);
    return result;
  };
  const Buffer x = buffer(MemoryUse::gradients);
  const Buffer send = buffer(MemoryUse::workspace),
               receive = buffer(MemoryUse::workspace);
  const auto call = [&](const void* from) {
    MPI_Allreduce(from, receive.data(), static_cast<int>(elements), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  };
  std::vector<double> ours, by_stage, mpi, ratios, in_place_ratios;
  for (int round = 0; round <= kRounds; ++round) {
    const double a = seconds(world, [&] { world.all_reduce(x.floats()); });
    const double s = seconds(world, [&] { staged.all_reduce(x.floats()); });
    const double b = seconds(world, [&] { call(send.data()); });
    const double c = seconds(world, [&] { call(MPI_IN_PLACE); });
    if (round == 0) continue;  // warms up
    ours.push_back(a);
    by_stage.push_back(s);
    mpi.push_back(b);
    ratios.push_back(b / a);
    in_place_ratios.push_back(c / a);
  }
  const double moved =
      2.0 * (world.size() - 1) / world.size() * static_cast<double>(elements) * 4;
  if (world.rank() == 0) {
    std::printf(
        "%8.2f MiB  ours %9.3f ms %6.2f GB/s (staged %9.3f ms)   "
        "MPI_Allreduce %9.3f ms %6.2f GB/s   "
        "times as fast %5.2f (as MPI in place %5.2f)\n",
        static_cast<double>(elements) * 4 / (1 << 20), median(ours) * 1e3,
        moved / median(ours) / 1e9, median(by_stage) * 1e3, median(mpi) * 1e3,
        moved / median(mpi) / 1e9, median(ratios), median(in_place_ratios));
  }
}

}  // namespace
}  // namespace llmtrain

int main(int argc, char** argv) {
  using namespace llmtrain;
  const MpiRuntime mpi(&argc, &argv);
  const index_t largest = argc > 1 ? std::max(1, std::atoi(argv[1])) : 256;
  const auto world = make_world_communicator();
  const auto staged = make_world_communicator(0, WithinNode::staged);
  if (world->rank() == 0) {
    std::printf(
        "all_reduce of f32 over %d ranks, medians of %d interleaved rounds; bus "
        "bandwidth is 2 (N-1)/N bytes over time\n",
        world->size(), kRounds);
  }
  for (index_t mib = 1; mib <= largest; mib *= 4) measure(*world, *staged, mib << 18);
  return 0;
}
