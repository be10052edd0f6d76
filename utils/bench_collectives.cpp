// llmtrain-bench-collectives [largest MiB]: the communicator's all_reduce beside MPI_Allreduce,
// interleaved in one run, medians. `mpirun -np 2 llmtrain-bench-collectives`
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "llmtrain/comm/communicator.hpp"
#include "llmtrain/comm/mpi_runtime.hpp"
#include "llmtrain/core/timer.hpp"

namespace llmtrain {
namespace {

constexpr int kPairs = 9;

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

void measure(Communicator& world, index_t elements) {
  std::vector<float> x(static_cast<std::size_t>(elements), 1.0f), y = x;
  std::vector<double> ours, mpi, ratios;
  for (int pair = 0; pair <= kPairs; ++pair) {
    const double a = seconds(world, [&] {
      world.all_reduce({x.data(), Dtype::f32, Shape{elements}});
    });
    const double b = seconds(world, [&] {
      MPI_Allreduce(MPI_IN_PLACE, y.data(), static_cast<int>(elements), MPI_FLOAT,
                    MPI_SUM, MPI_COMM_WORLD);
    });
    if (pair == 0) continue;  // warms up
    ours.push_back(a);
    mpi.push_back(b);
    ratios.push_back(b / a);
  }
  const double moved =
      2.0 * (world.size() - 1) / world.size() * static_cast<double>(elements) * 4;
  if (world.rank() == 0) {
    std::printf(
        "%8.2f MiB  ours %9.3f ms %6.2f GB/s   MPI_Allreduce %9.3f ms %6.2f GB/s   "
        "ratio %5.2f\n",
        static_cast<double>(elements) * 4 / (1 << 20), median(ours) * 1e3,
        moved / median(ours) / 1e9, median(mpi) * 1e3, moved / median(mpi) / 1e9,
        median(ratios));
  }
}

}  // namespace
}  // namespace llmtrain

int main(int argc, char** argv) {
  using namespace llmtrain;
  const MpiRuntime mpi(&argc, &argv);
  const index_t largest = argc > 1 ? std::max(1, std::atoi(argv[1])) : 256;
  const auto world = make_world_communicator();
  if (world->rank() == 0) {
    std::printf(
        "all_reduce of f32 over %d ranks, medians of %d interleaved pairs; bus "
        "bandwidth is 2 (N-1)/N bytes over time\n",
        world->size(), kPairs);
  }
  for (index_t mib = 1; mib <= largest; mib *= 4) measure(*world, mib << 18);
  return 0;
}
