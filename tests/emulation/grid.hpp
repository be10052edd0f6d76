// What the runtime asks of the scheduler.
#pragma once

#include "engine.hpp"

namespace emulation {

// Runs a kernel to its end. The launch's sizes have been checked.
void run_grid(const Kernel& kernel);

}  // namespace emulation
