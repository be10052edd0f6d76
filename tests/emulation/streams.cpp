#include "streams.hpp"

#include <chrono>
#include <set>
#include <vector>

#include "device_memory.hpp"
#include "runtime.hpp"

struct CUstream_st {
  std::shared_ptr<emulation::Stream> stream;
};
struct CUevent_st {
  emulation::Event event;
};

namespace emulation {
namespace {

std::set<CUstream_st*> live_streams;
std::set<CUevent_st*> live_events;
std::function<void()> progress_hook;

const std::shared_ptr<Stream>& null_stream() {
  static const auto stream = std::make_shared<Stream>(false);
  return stream;
}

std::vector<std::shared_ptr<Stream>> all_streams() {
  std::vector<std::shared_ptr<Stream>> streams{null_stream()};
  for (const CUstream_st* handle : live_streams) streams.push_back(handle->stream);
  return streams;
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What happens within the scope is done by the stream's thread, for ThreadSanitizer.
class OnStream {
 public:
  explicit OnStream(const Stream& stream) : caller_(Identity::current()) {
    stream.identity.take_over();
  }
  ~OnStream() { caller_.take_over(); }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

 private:
  Identity caller_;
};

// Tries the first piece of work; returns whether it is done now.
bool step(Stream& stream) {
  if (stream.queue.empty() || stream.running) return false;
  const std::shared_ptr<Work> work = stream.queue.front();
  stream.running = true;
  bool done = false;
  {
    const OnStream scope(stream);
    const DeviceAccess access;
    acquire(work->submission);
    done = work->attempt();
    if (done) {
      work->attempt = nullptr;
      release(work->completion);
    }
  }
  stream.running = false;
  if (!done) return false;
  work->finished = true;
  work->finished_ms = now_ms();
  stream.queue.pop_front();
  return true;
}

// Runs the stream up to `work`; returns whether that is done.
bool advance(Stream& stream, const Work& work) {
  while (!work.finished && step(stream)) {
  }
  return work.finished;
}

// Every stream goes on as far as it can; returns whether any did.
bool advance_all() {
  bool any = false;
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto& stream : all_streams()) moved = step(*stream) || moved;
    any = any || moved;
  }
  return any;
}

// Returns when `work` is done. While it cannot go on, the other streams do, as they would
// on a GPU: what it waits for may be another process that waits for them.
void finish(Stream& stream, Work& work) {
  while (!advance(stream, work)) {
    advance_all();
    if (progress_hook) progress_hook();
  }
  acquire(work.completion);
}

void finish_blocking_streams() {
  for (const auto& stream : all_streams()) {
    if (stream->blocking) synchronize(*stream);
  }
}

}  // namespace

std::shared_ptr<Stream> find(cudaStream_t handle) {
  if (handle == nullptr) return null_stream();
  return live_streams.count(handle) > 0 ? handle->stream : nullptr;
}

Event* find(cudaEvent_t handle) {
  return live_events.count(handle) > 0 ? &handle->event : nullptr;
}

cudaStream_t new_stream(bool blocking) {
  auto* const handle = new CUstream_st{std::make_shared<Stream>(blocking)};
  live_streams.insert(handle);
  return handle;
}

void delete_stream(cudaStream_t handle) {
  synchronize(*handle->stream);
  live_streams.erase(handle);
  delete handle;
}

cudaEvent_t new_event() {
  auto* const handle = new CUevent_st;
  live_events.insert(handle);
  return handle;
}

void delete_event(cudaEvent_t handle) {
  live_events.erase(handle);
  delete handle;
}

void submit(Stream& stream, std::function<bool()> attempt) {
  const bool is_null = &stream == null_stream().get();
  if (is_null) finish_blocking_streams();
  // Whoever drops it last: that is the emulator's doing and nobody's access.
  const std::shared_ptr<Work> work(new Work(std::move(attempt)), [](Work* unused) {
    const Unobserved scope;
    delete unused;
  });
  release(work->submission);
  stream.queue.push_back(work);
  stream.last = work;
  Schedule& schedule = emulation::schedule();
  // What blocking streams get later must come after the NULL stream's work.
  if (is_null) return finish(stream, *work);
  if (schedule.streams == Streams::eager) advance_all();
  if (schedule.streams == Streams::random) {
    const auto streams = all_streams();
    for (unsigned steps = schedule.streams_random.below(4); steps > 0; --steps)
      step(
          *streams[schedule.streams_random.below(static_cast<unsigned>(streams.size()))]);
  }
}

void record(Event& event, const std::shared_ptr<Stream>& stream) {
  submit(*stream, [] { return true; });
  event = {stream, stream->last};
}

void wait_for(Stream& stream, const Event& event) {
  if (event.stream == nullptr) return;  // never recorded: CUDA does not wait either
  submit(stream, [event] {
    if (!advance(*event.stream, *event.work)) return false;
    acquire(event.work->completion);
    return true;
  });
}

void synchronize(Stream& stream) {
  if (stream.last == nullptr) return;
  const std::shared_ptr<Work> last = stream.last;
  finish(stream, *last);
}

void synchronize(const Event& event) {
  if (event.stream != nullptr) finish(*event.stream, *event.work);
}

void synchronize_all() {
  for (const auto& stream : all_streams()) synchronize(*stream);
}

bool poll(Stream& stream) {
  if (progress_hook) progress_hook();
  step(stream);
  if (!stream.queue.empty()) return false;
  if (stream.last != nullptr) acquire(stream.last->completion);
  return true;
}

bool poll(const Event& event) {
  if (event.stream == nullptr) return true;
  if (progress_hook) progress_hook();
  if (!event.work->finished) step(*event.stream);
  if (!event.work->finished) return false;
  acquire(event.work->completion);
  return true;
}

void progress() { advance_all(); }

void set_progress_hook(std::function<void()> hook) { progress_hook = std::move(hook); }

cudaError_t enqueue(cudaStream_t handle, std::function<bool()> work) {
  const std::shared_ptr<Stream> stream = find(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  submit(*stream, std::move(work));
  return cudaSuccess;
}

}  // namespace emulation
