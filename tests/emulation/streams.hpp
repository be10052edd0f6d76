// Streams that defer their work, and events. Every piece of work is an object; an event is
// the piece that was last in its stream when it was recorded.
//
// ThreadSanitizer takes each stream for a thread of its own, ordered only by what CUDA
// orders: submission before the work, the work before who synchronises with it. So a
// missing event is a race it reports, whatever the order of execution.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <memory>

#include "sanitizers.hpp"

namespace emulation {

struct Work {
  explicit Work(std::function<bool()> run) : attempt(std::move(run)) {}
  std::function<bool()> attempt;  // returns whether the work is done
  bool finished = false;
  double finished_ms = 0.0;
  SyncToken submission{}, completion{};
};

struct Stream {
  explicit Stream(bool blocks) : blocking(blocks) {}
  ~Stream() { identity.destroy(); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  bool blocking;  // waits for the NULL stream and is waited for by it
  bool running = false;
  std::deque<std::shared_ptr<Work>> queue;
  std::shared_ptr<Work> last;  // submitted last
  Identity identity = Identity::create();
};

struct Event {
  std::shared_ptr<Stream> stream;  // null before it is recorded
  std::shared_ptr<Work> work;
};

// Null when the handle is of no live stream or event. The NULL stream is one, too.
std::shared_ptr<Stream> find(cudaStream_t handle);
Event* find(cudaEvent_t handle);

cudaStream_t new_stream(bool blocking);
void delete_stream(cudaStream_t handle);  // finishes its work first
cudaEvent_t new_event();
void delete_event(cudaEvent_t handle);

void submit(Stream& stream, std::function<bool()> attempt);
void record(Event& event, const std::shared_ptr<Stream>& stream);
void wait_for(Stream& stream, const Event& event);

// Return when the work is done.
void synchronize(Stream& stream);
void synchronize(const Event& event);
void synchronize_all();

// One piece of work, if it can go on. Returns whether all of it is done.
bool poll(Stream& stream);
bool poll(const Event& event);

}  // namespace emulation
