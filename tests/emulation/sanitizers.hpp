// What AddressSanitizer and ThreadSanitizer must be told; nothing without them.
//
// Kernels and tests are compiled with -fsanitize=thread, the emulator's own files without
// it: they define EMULATION_TSAN instead, so that its bookkeeping is not taken for races.
#pragma once

#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif
#ifdef EMULATION_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" void __tsan_ignore_thread_begin();
extern "C" void __tsan_ignore_thread_end();
#endif

namespace emulation {

#ifdef __SANITIZE_ADDRESS__
constexpr bool kAsan = true;
inline void forbid(void* begin, std::size_t bytes) {
  __asan_poison_memory_region(begin, bytes);
}
inline void allow(void* begin, std::size_t bytes) {
  __asan_unpoison_memory_region(begin, bytes);
}
#else
constexpr bool kAsan = false;
inline void forbid(void*, std::size_t) {}
inline void allow(void*, std::size_t) {}
#endif

// release(token) happens before every later acquire(token). A token that is used again
// must be new memory, or the order it carries from its former life hides races.
struct SyncToken {
  char address;
};

#ifdef EMULATION_TSAN
constexpr bool kTsan = true;
inline void release(SyncToken& token) { __tsan_release(&token); }
inline void acquire(SyncToken& token) { __tsan_acquire(&token); }

// Memory accesses within the scope belong to nobody.
class Unobserved {
 public:
  Unobserved() { __tsan_ignore_thread_begin(); }
  ~Unobserved() { __tsan_ignore_thread_end(); }
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;
};
#else
constexpr bool kTsan = false;
inline void release(SyncToken&) {}
inline void acquire(SyncToken&) {}

class Unobserved {
 public:
  Unobserved() {}
  ~Unobserved() {}
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;
};
#endif

}  // namespace emulation
