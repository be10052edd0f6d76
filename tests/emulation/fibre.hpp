// A fibre: a stack of its own on which code runs until it switches to another fibre.
#pragma once

#include <cstddef>

#include "sanitizers.hpp"

namespace emulation {

class Fibre {
 public:
  // The code that is running now, on the stack it has.
  Fibre();
  // Will run `body` on its own stack when first switched to; `body` must never return.
  // `number` spreads the stacks' hot ends over the sets of the caches.
  Fibre(void (*body)(), unsigned number);
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;

  // Suspends the running fibre, which must be `from`, until somebody switches to it.
  static void run(Fibre& from, Fibre& to);

 private:
  static void begin();
  void arrive();

  void (*body_)() = nullptr;
  void* stack_pointer_ = nullptr;
  void* stack_ = nullptr;  // lowest usable address
  std::size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;  // AddressSanitizer's frames, where it keeps them apart
  Identity identity_;
};

}  // namespace emulation
