// What an op needs beside its operands; passed first, never global.
#pragma once

#include "llmtrain/device/arena.hpp"

namespace llmtrain {

struct Context {
  Device& device;
  Arena& saved;    // activations that the backward pass will read
  Arena& scratch;  // a stack for the inside of an op or a layer (ArenaScope)
};

}  // namespace llmtrain
