// llmtrain-checkpoint: looks into checkpoints. Exit statuses as in llmtrain.
#include <cstdio>
#include <string>
#include <vector>

#include "llmtrain/core/error.hpp"
#include "llmtrain/io/inspect.hpp"

namespace llmtrain {
namespace {

constexpr const char* kUsage =
    "usage: llmtrain-checkpoint ls DIRECTORY    the checkpoints of a directory\n"
    "       llmtrain-checkpoint show PATH       progress, provenance and tensors of one\n"
    "       llmtrain-checkpoint verify PATH     every digest and every element of one\n"
    "\n"
    "exit status: 0 good, 2 usage, 65 damaged or not a checkpoint, 74 not readable\n";

double mib(index_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

Status list(const std::string& directory) {
  const std::vector<io::CheckpointEntry> entries = io::list_checkpoints(directory);
  bool complete = true;
  std::printf("%10s  %-23s  %12s  %10s  %s\n", "step", "date", "MiB", "loss",
              "complete?");
  for (const io::CheckpointEntry& entry : entries) {
    std::printf("%10lld  %-23s  %12.1f  %10.6f  %s\n", static_cast<long long>(entry.step),
                entry.time.empty() ? "?" : entry.time.c_str(), mib(entry.bytes),
                entry.loss, entry.fault.empty() ? "yes" : ("no: " + entry.fault).c_str());
    complete = complete && entry.fault.empty();
  }
  return complete ? Status::finished : Status::bad_data;
}

void show_progress(const io::Progress& progress) {
  const auto number = [](const char* what, std::int64_t value) {
    std::printf("  %-22s %lld\n", what, static_cast<long long>(value));
  };
  std::printf("progress\n");
  number("step", progress.step);
  number("applied steps", progress.applied_steps);
  number("skipped in a row", progress.skipped_in_row);
  number("samples", progress.samples);
  number("samples of an epoch", progress.epoch_size);
  number("tokens", progress.tokens);
  std::printf("  %-22s %.17g\n", "loss", progress.last_loss);
  std::printf("  %-22s %.17g (step %lld)\n", "best validation loss",
              progress.best_validation_loss,
              static_cast<long long>(progress.best_validation_step));
  std::printf("  %-22s %llu\n", "seed", static_cast<unsigned long long>(progress.seed));
  std::printf("  %-22s %s\n", "data", progress.data_fingerprint.c_str());
  number("required data ranks", progress.required_ranks);
}

Status show(const std::string& path) {
  const io::CheckpointContents contents = io::read_contents(path);
  show_progress(contents.progress);
  const io::Provenance& provenance = contents.provenance;
  std::printf("provenance\n");
  std::printf("  %-22s %s\n", "saved", provenance.time.c_str());
  std::printf("  %-22s %s\n", "version", provenance.version.c_str());
  std::printf("  %-22s %s\n", "hosts", provenance.hosts.c_str());
  std::printf("  %-22s %s\n", "layout", provenance.layout.c_str());
  std::printf("  %-22s %lld, %.1f MiB\n", "files", static_cast<long long>(contents.files),
              mib(contents.bytes));
  std::printf("tensors\n");
  index_t weights = 0;
  for (const io::TensorEntry& tensor : contents.tensors) {
    std::printf("  /%s/%s %s, %lld piece%s\n", name(tensor.kind), tensor.name.c_str(),
                tensor.shape.text().c_str(), static_cast<long long>(tensor.pieces),
                tensor.pieces == 1 ? "" : "s");
    if (tensor.kind == io::TensorKind::weight) weights += tensor.shape.count();
  }
  std::printf("  %lld weights\ninput\n%s", static_cast<long long>(weights),
              provenance.input.c_str());
  return Status::finished;
}

Status verify(const std::string& path) {
  const io::Verification result = io::verify_checkpoint(path);
  std::printf("%lld files, %.1f MiB, %lld tensors, %lld elements, %lld NaN\n",
              static_cast<long long>(result.files), mib(result.bytes),
              static_cast<long long>(result.tensors),
              static_cast<long long>(result.elements),
              static_cast<long long>(result.not_a_number));
  for (const std::string& fault : result.faults) {
    std::printf("fault: %s\n", fault.c_str());
  }
  std::printf("%s: %s\n", path.c_str(), result.faults.empty() ? "good" : "damaged");
  return result.faults.empty() ? Status::finished : Status::bad_data;
}

Status run(const std::vector<std::string>& words) {
  if (words.size() == 1 && (words[0] == "--help" || words[0] == "-h")) {
    std::fputs(kUsage, stdout);
    return Status::finished;
  }
  if (words.size() == 2 && words[0] == "ls") return list(words[1]);
  if (words.size() == 2 && words[0] == "show") return show(words[1]);
  if (words.size() == 2 && words[0] == "verify") return verify(words[1]);
  std::fputs(kUsage, stderr);
  return Status::usage;
}

}  // namespace
}  // namespace llmtrain

int main(int argc, char** argv) {
  try {
    const llmtrain::Status status =
        llmtrain::run(std::vector<std::string>(argv + 1, argv + argc));
    if (std::fflush(stdout) != 0) return static_cast<int>(llmtrain::Status::io);
    return static_cast<int>(status);
  } catch (const llmtrain::Error& error) {
    std::fprintf(stderr, "llmtrain-checkpoint: %s\n", error.what());
    return static_cast<int>(error.status());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "llmtrain-checkpoint: %s\n", error.what());
    return static_cast<int>(llmtrain::Status::internal);
  }
}
