#include "llmtrain/train/metrics.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "llmtrain/core/error.hpp"

namespace llmtrain {

namespace {

constexpr const char* kHeader =
    "step,tokens,loss,gradient_norm,learning_rate,tokens_per_second,milliseconds,"
    "validation_loss";

std::string shortest(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

// The header and the rows of `path` up to step `last`.
std::string rows_until(const std::string& path, index_t last) {
  std::string kept = std::string(kHeader) + '\n';
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    index_t step = 0;
    const auto parsed = std::from_chars(line.data(), line.data() + line.size(), step);
    if (parsed.ec == std::errc{} && step <= last) kept += line + '\n';
  }
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, index_t resumed_step) : path_(path) {
  const std::string kept = rows_until(path, resumed_step);
  const std::string cut = path + ".partial";
  std::ofstream out(cut, std::ios::trunc);
  out << kept;
  out.close();
  std::error_code error;
  std::filesystem::rename(cut, path, error);
  if (!out || error)
    fail(Status::io, path, ": cannot be written: ", std::strerror(errno));
  file_.reset(std::fopen(path.c_str(), "a"));
  if (!file_) fail(Status::io, path, ": cannot be opened: ", std::strerror(errno));
}

void MetricsFile::write(const MetricsRow& row) {
  std::string line = std::to_string(row.step) + ',' + std::to_string(row.tokens);
  for (const double value : {row.loss, row.gradient_norm, row.learning_rate,
                             row.tokens_per_second, row.milliseconds}) {
    line += ',' + shortest(value);
  }
  line +=
      ',' + (row.validation_loss ? shortest(*row.validation_loss) : std::string{}) + '\n';
  if (std::fputs(line.c_str(), file_.get()) < 0 || std::fflush(file_.get()) != 0) {
    fail(Status::io, path_, ": cannot be written: ", std::strerror(errno));
  }
}

}  // namespace llmtrain
