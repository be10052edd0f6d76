#include <algorithm>
#include <filesystem>

#include "io/bytes.hpp"
#include "io/index_file.hpp"
#include "io/posix_file.hpp"
#include "io/step_folders.hpp"
#include "io/verify.hpp"
#include "llmtrain/io/checkpoint.hpp"

namespace llmtrain::io {

namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.size() <= 10 &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

CheckpointStore::CheckpointStore(Communicator& world, const std::string& directory,
                                 const CheckpointConfig& config, Log& log)
    : world_(world), directory_(directory), config_(config), log_(log) {
  require(config_.keep >= 1, "a store keeps at least one checkpoint, not ", config_.keep);
  const std::string fault =
      world_.broadcast(fault_in([&] {
                         if (world_.rank() != 0) return;
                         std::filesystem::create_directories(directory_);
                         remove_leftovers(directory_);
                       }),
                       0);
  if (!fault.empty()) fail_everywhere(Status::io, fault);
}

std::string CheckpointStore::path_of(std::int64_t step) const {
  return directory_ + "/" + step_name(step);
}

std::optional<std::string> CheckpointStore::find() {
  if (config_.resume == "none") return std::nullopt;
  const std::optional<std::string> path =
      config_.resume == "auto" ? find_newest() : std::optional(find_named());
  if (path) resume_from(*path);
  return path;
}

std::optional<std::string> CheckpointStore::find_newest() {
  std::string bytes;
  const std::string unreadable =
      world_.broadcast(fault_in([&] {
                         if (world_.rank() != 0) return;
                         ByteWriter out;
                         for (const std::int64_t step : list_steps(directory_))
                           out.put(step);
                         bytes = out.take();
                       }),
                       0);
  if (!unreadable.empty()) fail_everywhere(Status::io, unreadable);
  bytes = world_.broadcast(bytes, 0);
  ByteReader in(bytes);
  std::vector<std::int64_t> steps;
  while (!in.done()) steps.push_back(in.get<std::int64_t>());
  warn_of_latest(steps);

  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const std::string fault = find_fault(world_, path_of(*step), config_.verify);
    if (fault.empty()) return path_of(*step);
    log_.warn("checkpoint of step ", *step, " is passed over: ", fault);
  }
  if (!steps.empty()) {
    fail_everywhere(
        Status::bad_data, directory_, ": none of its ", steps.size(),
        " checkpoints is good; checkpoint.resume = none would start from scratch");
  }
  return std::nullopt;
}

void CheckpointStore::warn_of_latest(const std::vector<std::int64_t>& steps) {
  if (world_.rank() != 0) return;
  std::string fault;
  const std::optional<std::int64_t> latest = read_latest(directory_, fault);
  if (!fault.empty()) {
    log_.warn(fault);
  } else if (latest && (steps.empty() || *latest != steps.back())) {
    log_.warn(directory_, "/latest: names step ", *latest,
              ", but the newest that is there ",
              steps.empty() ? "is none" : cat("is ", steps.back()));
  } else if (!latest && !steps.empty()) {
    log_.warn(directory_, "/latest: is missing");
  }
}

std::string CheckpointStore::find_named() {
  const std::string path =
      is_number(config_.resume) ? path_of(std::stoll(config_.resume)) : config_.resume;
  const std::string fault = find_fault(world_, path, config_.verify);
  if (!fault.empty()) {
    fail_everywhere(Status::bad_data, "checkpoint.resume = ", config_.resume, ": ",
                    fault);
  }
  return path;
}

void CheckpointStore::resume_from(const std::string& path) {
  verified_ = path;
  // Only a checkpoint of this directory makes the others here part of the run's history.
  const std::string bytes = world_.broadcast(
      std::to_string([&]() -> std::int64_t {
        if (world_.rank() != 0) return -1;
        std::error_code ignored;
        const std::filesystem::path folder = std::filesystem::canonical(path, ignored);
        const auto step = parse_step(folder.filename().string());
        const bool here =
            std::filesystem::equivalent(folder.parent_path(), directory_, ignored);
        return step && here ? *step : -1;
      }()),
      0);
  resumed_step_ = std::stoll(bytes);
}

void CheckpointStore::require_verified(const std::string& path) {
  if (path == verified_) return;
  const std::string fault = find_fault(world_, path, config_.verify);
  if (!fault.empty()) fail_everywhere(Status::bad_data, fault);
  verified_ = path;
}

Progress CheckpointStore::read_progress(const std::string& path) {
  require_verified(path);
  std::string bytes;
  const std::string fault =
      world_.broadcast(fault_in([&] {
                         if (world_.rank() == 0)
                           bytes = to_bytes(IndexReader(path).progress());
                       }),
                       0);
  if (!fault.empty()) fail_everywhere(Status::bad_data, fault);
  return progress_from_bytes(world_.broadcast(bytes, 0));
}

}  // namespace llmtrain::io
