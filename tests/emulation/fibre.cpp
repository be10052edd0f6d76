#include "fibre.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Saves what a call must preserve, exchanges the stacks, and goes on where the other stack
// was left. It ends with a jump rather than `ret`: the processor predicts a return from
// the calls it saw, and those were made on another stack (2.3 ns a switch against 12.5).
extern "C" void emulation_switch_stacks(void** saved, void* next);
asm(R"(
.pushsection .text
.globl emulation_switch_stacks
.type emulation_switch_stacks, @function
emulation_switch_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmp *%rcx
.size emulation_switch_stacks, .-emulation_switch_stacks
.popsection
)");

// ThreadSanitizer asks for this: a program stops at its first race.
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }

namespace emulation {
namespace {

// AddressSanitizer puts gaps between variables.
std::size_t stack_bytes() { return (has_asan() ? 256 : 64) * std::size_t{1024}; }
constexpr int kSavedRegisters = 6;

Fibre* left = nullptr;     // the fibre that switched last
Fibre* entered = nullptr;  // the one it switched to

}  // namespace

Fibre::Fibre() : identity_(Identity::current()) {}

Fibre::Fibre(void (*body)(), unsigned number)
    : body_(body), stack_bytes_(stack_bytes()), identity_(Identity::create()) {
  // Below the stack lies a page that nobody may touch: overflow is a fault, not damage.
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const mapped = mmap(nullptr, page + stack_bytes_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED || mprotect(mapped, page, PROT_NONE) != 0) {
    std::perror("emulation: no memory for a fibre's stack");
    std::abort();
  }
  stack_ = static_cast<char*>(mapped) + page;
  // Equal offsets would put the hot frames of all fibres into one set of the cache.
  const std::size_t colour = number % 61 * 192;
  auto* top = reinterpret_cast<std::uintptr_t*>(static_cast<char*>(stack_) +
                                                stack_bytes_ - 64 - colour);
  *--top = 0;  // where begin() would return to; also aligns its frame as a call does
  *--top = reinterpret_cast<std::uintptr_t>(&Fibre::begin);
  for (int i = 0; i < kSavedRegisters; ++i) *--top = 0;
  stack_pointer_ = top;
}

void Fibre::run(Fibre& from, Fibre& to) {
  left = &from;
  entered = &to;
  if (has_asan())
    __sanitizer_start_switch_fiber(&from.fake_stack_, to.stack_, to.stack_bytes_);
  to.identity_.take_over();
  emulation_switch_stacks(&from.stack_pointer_, to.stack_pointer_);
  from.arrive();
}

// The first thing on a stack that was switched to.
void Fibre::arrive() {
  if (!has_asan()) return;
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &bytes);
  if (left->stack_ == nullptr) {  // the process's own stack, whose bounds nobody told us
    left->stack_ = const_cast<void*>(bottom);
    left->stack_bytes_ = bytes;
  }
}

void Fibre::begin() {
  Fibre& self = *entered;
  self.arrive();
  self.body_();
  std::abort();
}

}  // namespace emulation
