// The rate of matrix products that this machine reaches: what steps are compared with.
#pragma once

#include "llmtrain/comm/communicator.hpp"

namespace llmtrain {

// FLOP/s of all ranks together, each multiplying 1024 x 1024 f32 matrices at the same time for
// a tenth of a second; the best product counts. Collective.
double measure_matmul_peak(Communicator& world);

}  // namespace llmtrain
