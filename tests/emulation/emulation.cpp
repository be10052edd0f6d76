// The scheduler: runs the blocks of a grid one after another, the threads of a block as
// fibres that switch to each other wherever one has to wait.
#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <memory>
#include <numeric>
#include <vector>

#include "engine.hpp"
#include "grid.hpp"
#include "guarded_memory.hpp"
#include "schedule.hpp"
#include "thread.hpp"

namespace emulation {

const uint3* thread_index = nullptr;
uint3 block_index{};
dim3 block_dim, grid_dim;

namespace {

// Threads that can run. Each is in it at most once.
class ReadyQueue {
 public:
  bool empty() const { return begin_ == end_; }
  void clear() { begin_ = end_ = 0; }
  void push(unsigned number) { slots_[end_++ % kMostThreads] = number; }
  unsigned pop() { return slots_[begin_++ % kMostThreads]; }
  // One of them, by `random`; lagging warps are chosen rarely.
  unsigned pop(Random& random, unsigned lagging_warps) {
    const unsigned count = end_ - begin_;
    unsigned pick = begin_ + random.below(count);
    for (int tries = 0; tries < 4; ++tries) {
      const unsigned warp = slots_[pick % kMostThreads] / kWarp;
      if ((lagging_warps >> warp & 1) == 0) break;
      pick = begin_ + random.below(count);
    }
    std::swap(slots_[pick % kMostThreads], slots_[begin_ % kMostThreads]);
    return pop();
  }

 private:
  std::array<unsigned, kMostThreads> slots_;
  unsigned begin_ = 0, end_ = 0;
};

struct Warp {
  unsigned exited = 0;
  unsigned waiting = 0;
  // Of __syncwarp by the lowest lane of its mask; see Tokens.
  std::array<unsigned, kWarp> phase{};
};

struct SharedVariable {
  const void* key;
  GuardedMemory memory;
};

// What belongs to one block alone and is never used for another.
struct BlockMemory {
  std::vector<SharedVariable> statics;
  GuardedMemory dynamic;

  // Who arrives at a barrier releases a token, who leaves acquires it. Two take turns:
  // nobody can arrive at the second next barrier before all have left this one.
  std::array<SyncToken, 2> barrier{};
  std::array<std::array<std::array<SyncToken, 2>, kWarp>, kMostThreads / kWarp> warps{};
};

struct Grid {
  const std::function<void()>* body;
  unsigned threads;  // of a block
  SyncToken begin{}, end{};
  std::deque<BlockMemory> blocks;  // under ThreadSanitizer all, else the running one
};

// Threads that sleep only, and nobody else, this often in a row wait for nothing.
constexpr unsigned kMostSleeps = 1'000'000;

Order order = Order::forward;  // of the running grid
Random* random_source = nullptr;
Fibre* host = nullptr;  // what runs the grid
std::array<Thread, kMostThreads> threads;
std::array<Warp, kMostThreads / kWarp> warps;
ReadyQueue ready;
Grid* grid = nullptr;
Thread* current = nullptr;
unsigned alive = 0, at_barrier = 0, predicates = 0, barrier_phase = 0, sleeps = 0;
unsigned lagging_warps = 0;

std::span<const Thread> block_threads() { return {threads.data(), grid->threads}; }

void set_current(Thread& thread) {
  current = &thread;
  thread_index = &thread.index;
}

void make_ready(Thread& thread) {
  thread.state = State::ready;
  ready.push(thread.number);
}

// Calls visit(number) for 0 .. count - 1, against the order when that is reverse.
template <class Visit>
void in_order(unsigned count, Visit visit) {
  for (unsigned i = 0; i < count; ++i) visit(order == Order::reverse ? count - 1 - i : i);
}

[[noreturn]] void report_stuck() {
  if (at_barrier == 0) report("deadlock: no thread can run", block_threads());
  if (alive < grid->threads && at_barrier == alive)
    report("threads exited before a barrier that others wait at", block_threads());
  report("deadlock: some threads of the block do not come to the barrier",
         block_threads());
}

Thread& next_thread() {
  if (ready.empty()) report_stuck();
  return threads[order == Order::shuffled ? ready.pop(*random_source, lagging_warps)
                                          : ready.pop()];
}

void switch_from(Thread& from) {
  Thread& to = next_thread();
  if (&to == &from) return;
  set_current(to);
  Fibre::run(*from.fibre, *to.fibre);
}

void finish_thread() {
  Thread& self = *current;
  Warp& warp = warps[self.warp()];
  self.state = State::finished;
  warp.exited |= self.lane_bit();
  release(grid->end);
  for (unsigned rest = warp.waiting; rest != 0; rest &= rest - 1) {
    const Thread& other = threads[self.warp() * kWarp + std::countr_zero(rest)];
    if ((other.mask & self.lane_bit()) != 0)
      report("a lane exited that others wait for", block_threads());
  }
  if (--alive > 0) return switch_from(self);
  current = nullptr;
  Fibre::run(*self.fibre, *host);
}

// What a fibre does all its life: one thread of one block after another.
void thread_body() {
  for (;;) {
    acquire(grid->begin);
    (*grid->body)();
    finish_thread();
  }
}

// Two blocks that follow each other, of one grid or of two, never share a fibre, and
// threads of the same number get another one in later blocks: what ThreadSanitizer takes
// for one thread is ordered. `turn` counts the blocks.
Fibre& fibre_of(unsigned turn, unsigned thread) {
  static std::deque<Fibre> fibres;
  const unsigned count = grid->threads;
  const unsigned slot =
      has_tsan() ? turn % 2 * count + (thread + turn / 2) % count : thread;
  while (fibres.size() <= slot)
    fibres.emplace_back(&thread_body, static_cast<unsigned>(fibres.size()));
  return fibres[slot];
}

void check_guards(const BlockMemory& memory) {
  const auto check = [](const GuardedMemory& guarded, const char* kind) {
    const std::ptrdiff_t offset = guarded.damage();
    if (offset == 0) return;
    report(std::string("a kernel wrote outside its ") + kind + " shared memory of " +
           std::to_string(guarded.bytes()) + " bytes, at byte " + std::to_string(offset));
  };
  check(memory.dynamic, "dynamic");
  for (const SharedVariable& variable : memory.statics) check(variable.memory, "static");
}

void run_block(std::size_t dynamic_shared_bytes) {
  static unsigned turn = 0;
  ++turn;
  if (!has_tsan()) grid->blocks.clear();
  grid->blocks.push_back({{}, GuardedMemory(dynamic_shared_bytes)});
  const unsigned count = grid->threads;
  alive = count;
  at_barrier = predicates = barrier_phase = sleeps = 0;
  lagging_warps = static_cast<unsigned>(random_source->next() & random_source->next());
  std::fill_n(warps.begin(), (count + kWarp - 1) / kWarp, Warp{});
  if (count % kWarp != 0) warps[count / kWarp].exited = ~0u << count % kWarp;
  for (unsigned i = 0; i < count; ++i) {
    Thread& thread = threads[i];
    thread.index = {i % block_dim.x, i / block_dim.x % block_dim.y,
                    i / block_dim.x / block_dim.y};
    thread.number = i;
    thread.fenced = false;
    thread.fibre = &fibre_of(turn, i);
  }
  ready.clear();
  in_order(count, [](unsigned i) { make_ready(threads[i]); });
  Thread& first = next_thread();
  set_current(first);
  Fibre::run(*host, *first.fibre);
  check_guards(grid->blocks.back());
}

std::vector<unsigned> block_sequence(unsigned count) {
  std::vector<unsigned> sequence(count);
  std::iota(sequence.begin(), sequence.end(), 0u);
  if (order == Order::reverse) std::reverse(sequence.begin(), sequence.end());
  if (order == Order::shuffled) {
    for (unsigned i = count; i > 1; --i)
      std::swap(sequence[i - 1], sequence[random_source->below(i)]);
  }
  return sequence;
}

// Waits in a warp; the last of its group to arrive gives each lane what it came for.
template <class Deliver>
void meet_lanes(Call call, unsigned mask, Deliver deliver) {
  Thread& self = *current;
  Warp& warp = warps[self.warp()];
  self.call = call;
  self.mask = mask;
  self.state = State::in_warp;
  if ((mask & self.lane_bit()) == 0)
    report("a lane calls a warp function whose mask lacks it", block_threads());
  if ((mask & warp.exited) != 0)
    report("the mask of a warp function names lanes that have exited or never were",
           block_threads());
  warp.waiting |= self.lane_bit();
  if ((warp.waiting & mask) == mask) {
    Thread* const lanes = &threads[self.warp() * kWarp];
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
      const Thread& lane = lanes[std::countr_zero(rest)];
      if (lane.mask != mask || !same_place(lane.call, call))
        report("lanes of one mask wait in different warp functions", block_threads());
    }
    deliver(lanes);
    warp.waiting &= ~mask;
    in_order(kWarp, [&](unsigned lane) {
      if ((mask >> lane & 1) != 0) make_ready(lanes[lane]);
    });
  }
  switch_from(self);
}

}  // namespace

unsigned barrier(Call call, bool predicate) {
  Thread& self = *current;
  const unsigned phase = barrier_phase;
  std::array<SyncToken, 2>& tokens = grid->blocks.back().barrier;
  self.call = call;
  self.state = State::at_barrier;
  predicates += predicate;
  release(tokens[phase % 2]);
  if (++at_barrier == grid->threads) {
    for (const Thread& thread : block_threads()) {
      if (!same_place(thread.call, call))
        report("threads of a block wait at different barriers", block_threads());
    }
    in_order(grid->threads, [&](unsigned i) {
      threads[i].value = predicates;
      make_ready(threads[i]);
    });
    at_barrier = predicates = sleeps = 0;
    ++barrier_phase;
  }
  switch_from(self);
  acquire(tokens[phase % 2]);
  return static_cast<unsigned>(self.value);
}

std::uint64_t shuffle(Call call, unsigned mask, std::uint64_t value, unsigned source) {
  Thread& self = *current;
  self.value = value;
  self.source = source;
  meet_lanes(call, mask, [&](Thread* lanes) {
    std::array<std::uint64_t, kWarp> given;
    for (unsigned lane = 0; lane < kWarp; ++lane) given[lane] = lanes[lane].value;
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
      Thread& lane = lanes[std::countr_zero(rest)];
      if ((mask >> lane.source & 1) == 0)
        report("a lane reads from lane " + std::to_string(lane.source) +
                   ", which is not in the mask",
               block_threads());
      lane.value = given[lane.source];
    }
  });
  return self.value;
}

std::uint64_t reduce(Call call, unsigned mask, std::uint64_t value, Combine combine) {
  Thread& self = *current;
  self.value = value;
  meet_lanes(call, mask, [&](Thread* lanes) {
    unsigned rest = mask;
    std::uint64_t result = lanes[std::countr_zero(rest)].value;
    for (rest &= rest - 1; rest != 0; rest &= rest - 1)
      result = combine(result, lanes[std::countr_zero(rest)].value);
    for (rest = mask; rest != 0; rest &= rest - 1)
      lanes[std::countr_zero(rest)].value = result;
  });
  return self.value;
}

void sync_warp(Call call, unsigned mask) {
  Thread& self = *current;
  const unsigned group = mask == 0 ? 0 : std::countr_zero(mask);
  unsigned& phase = warps[self.warp()].phase[group];
  SyncToken& token = grid->blocks.back().warps[self.warp()][group][phase % 2];
  release(token);
  meet_lanes(call, mask, [&](Thread*) { ++phase; });
  acquire(token);
}

unsigned lane() { return current->lane(); }

void sleep() {
  Thread& self = *current;
  if (++sleeps > kMostSleeps) report("livelock: threads only sleep", block_threads());
  make_ready(self);
  self.state = State::asleep;
  switch_from(self);
  self.state = State::ready;
}

void* static_shared(const void* variable, std::size_t bytes) {
  std::vector<SharedVariable>& statics = grid->blocks.back().statics;
  for (const SharedVariable& known : statics) {
    if (known.key == variable) return known.memory.data();
  }
  return statics.emplace_back(SharedVariable{variable, GuardedMemory(bytes)})
      .memory.data();
}

void* dynamic_shared() { return grid->blocks.back().dynamic.data(); }

void run_grid(const Kernel& kernel) {
  // Not on the stack: the tokens must be new memory.
  const auto running = std::make_unique<Grid>();
  grid = running.get();
  grid->body = &kernel.body;
  grid->threads = kernel.block.x * kernel.block.y * kernel.block.z;
  block_dim = kernel.block;
  grid_dim = kernel.grid;
  order = schedule().order;
  random_source = &schedule().order_random;
  Fibre running_code;
  host = &running_code;
  release(grid->begin);
  for (const unsigned i : block_sequence(kernel.grid.x * kernel.grid.y * kernel.grid.z)) {
    block_index = {i % grid_dim.x, i / grid_dim.x % grid_dim.y,
                   i / grid_dim.x / grid_dim.y};
    run_block(kernel.dynamic_shared_bytes);
  }
  acquire(grid->end);
  grid = nullptr;
}

void fence() { current->fenced = true; }
void before_atomic(void* address) {
  if (current->fenced) release(*static_cast<SyncToken*>(address));
}
void after_atomic(void* address) { acquire(*static_cast<SyncToken*>(address)); }

}  // namespace emulation
