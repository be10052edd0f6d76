// What AddressSanitizer and ThreadSanitizer must be told; nothing in a program without
// them. Only kernels and tests are compiled with a sanitizer. The emulator itself never is:
// ThreadSanitizer would take its bookkeeping for races, and one build of it serves all.
#pragma once

#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/tsan_interface.h>

#include <cstddef>

extern "C" void __tsan_ignore_thread_begin();
extern "C" void __tsan_ignore_thread_end();

// Null where the program is linked without their library.
#pragma weak __asan_poison_memory_region
#pragma weak __asan_unpoison_memory_region
#pragma weak __sanitizer_start_switch_fiber
#pragma weak __sanitizer_finish_switch_fiber
#pragma weak __tsan_acquire
#pragma weak __tsan_release
#pragma weak __tsan_get_current_fiber
#pragma weak __tsan_create_fiber
#pragma weak __tsan_destroy_fiber
#pragma weak __tsan_switch_to_fiber
#pragma weak __tsan_ignore_thread_begin
#pragma weak __tsan_ignore_thread_end

namespace emulation {

inline bool has_asan() { return &__asan_poison_memory_region != nullptr; }
inline bool has_tsan() { return &__tsan_acquire != nullptr; }

inline void forbid(void* begin, std::size_t bytes) {
  if (has_asan()) __asan_poison_memory_region(begin, bytes);
}
inline void allow(void* begin, std::size_t bytes) {
  if (has_asan()) __asan_unpoison_memory_region(begin, bytes);
}

// release(token) happens before every later acquire(token). A token that is used again
// must be new memory, or the order it carries from its former life hides races.
struct SyncToken {
  char address;
};
inline void release(SyncToken& token) {
  if (has_tsan()) __tsan_release(&token);
}
inline void acquire(SyncToken& token) {
  if (has_tsan()) __tsan_acquire(&token);
}

// Memory accesses within the scope belong to nobody.
class Unobserved {
 public:
  Unobserved() {
    if (has_tsan()) __tsan_ignore_thread_begin();
  }
  ~Unobserved() {
    if (has_tsan()) __tsan_ignore_thread_end();
  }
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;
};

// What ThreadSanitizer takes for a thread; null without it.
class Identity {
 public:
  static Identity current() {
    return Identity(has_tsan() ? __tsan_get_current_fiber() : nullptr);
  }
  static Identity create() {
    return Identity(has_tsan() ? __tsan_create_fiber(0) : nullptr);
  }
  void destroy() {
    if (has_tsan()) __tsan_destroy_fiber(thread_);
  }
  // What follows is done by this one; the switch orders nothing.
  void take_over() const {
    if (has_tsan()) __tsan_switch_to_fiber(thread_, __tsan_switch_to_fiber_no_sync);
  }

 private:
  explicit Identity(void* thread) : thread_(thread) {}
  void* thread_;
};

}  // namespace emulation
