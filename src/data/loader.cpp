#include "llmtrain/data/loader.hpp"

#include <utility>

#include "llmtrain/core/error.hpp"

namespace llmtrain::data {

StepBatches read_step(const Dataset& dataset, Sampler& sampler, const Share& share,
                      index_t counter) {
  StepBatches step;
  step.counter = counter;
  std::vector<index_t> samples(share.micro_batch);
  for (index_t micro = 0; micro < share.micro_batches(); ++micro) {
    const index_t position = share.first_position() + micro * share.micro_batch;
    for (index_t i = 0; i < share.micro_batch; ++i) {
      samples[i] = sampler.batch_sample(counter, share.global_batch, position + i).sample;
    }
    step.micro_batches.push_back(
        read_batch(dataset, samples, share.micro_batch, position));
    step.valid_tokens += step.micro_batches.back().valid_tokens;
  }
  return step;
}

Loader::Loader(Dataset dataset, Sampler sampler, const Share& share, index_t counter)
    : dataset_(std::move(dataset)),
      sampler_(std::move(sampler)),
      share_(share),
      next_counter_(counter) {
  require(share.micro_batch >= 1 && share.rank >= 0 && share.rank < share.ranks &&
              share.global_batch % (share.ranks * share.micro_batch) == 0,
          "global batch ", share.global_batch, " over ", share.ranks,
          " ranks in micro-batches of ", share.micro_batch);
  thread_ = std::thread([this] { run(); });
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

StepBatches Loader::next_step(index_t counter) {
  std::unique_lock lock(mutex_);
  const index_t first = ready_.empty() ? next_counter_ : ready_.front().counter;
  if (first != counter) start_at(counter);
  changed_.wait(lock, [this] { return !ready_.empty() || failure_; });
  if (ready_.empty()) std::rethrow_exception(failure_);
  StepBatches step = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  return step;
}

// With the mutex held. A step that the thread is reading meanwhile is thrown away by
// run().
void Loader::start_at(index_t counter) {
  ready_.clear();
  failure_ = nullptr;
  next_counter_ = counter;
  changed_.notify_all();
}

void Loader::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(
        lock, [this] { return stopping_ || (!failure_ && ready_.size() < kStepsAhead); });
    if (stopping_) return;
    const index_t counter = next_counter_;
    StepBatches step;
    std::exception_ptr failure;
    lock.unlock();
    try {
      step = read_step(dataset_, sampler_, share_, counter);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (next_counter_ != counter) continue;
    if (failure) {
      failure_ = failure;
    } else {
      ready_.push_back(std::move(step));
      next_counter_ += share_.global_batch;
    }
    changed_.notify_all();
  }
}

}  // namespace llmtrain::data
