// Reads ahead: while a step computes, a thread prepares the next ones.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "llmtrain/data/batch.hpp"
#include "llmtrain/data/sampler.hpp"

namespace llmtrain::data {

// One rank's share of the global batch that starts at sample `counter`.
struct StepBatches {
  index_t counter = 0;
  std::vector<Batch> micro_batches;
  index_t valid_tokens = 0;  // of all of them; the global count is the sum over ranks
};

// What next_step(counter) returns, read directly in the caller's thread.
StepBatches read_step(const Dataset& dataset, Sampler& sampler, const Share& share,
                      index_t counter);

// Keeps kStepsAhead steps ready, and never holds more. Made, used and destroyed by one
// thread; it can be destroyed at any time, and waits then for at most the step being
// read.
class Loader {
 public:
  static constexpr int kStepsAhead = 2;

  // Starts to read at `counter`. The dataset is copied (its files stay shared and open).
  Loader(Dataset dataset, Sampler sampler, const Share& share, index_t counter);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The step that starts at sample `counter`; waits until it is read. Steps that follow
  // one another by global_batch are ready ahead; any other counter starts afresh there.
  // Throws what went wrong with this step, not earlier: the steps before it are handed
  // out.
  StepBatches next_step(index_t counter);

 private:
  void run();
  void start_at(index_t counter);

  const Dataset dataset_;
  Sampler sampler_;  // the thread's
  const Share share_;

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<StepBatches> ready_;
  index_t next_counter_;        // that the thread reads next
  std::exception_ptr failure_;  // of the step at next_counter_
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace llmtrain::data
