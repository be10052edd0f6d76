// Values as text: strict in reading, shortest in writing. Builders of rows by type.
#pragma once

#include <array>
#include <limits>

#include "app/options_rows.hpp"

namespace llmtrain::app {

// Bounds of a double, each inclusive or not. NaN lies in none.
struct Range {
  double low, high;
  bool open_low = false, open_high = false;
  bool contains(double value) const {
    return (open_low ? value > low : value >= low) &&
           (open_high ? value < high : value <= high);
  }
};

Row integer(std::string key, std::int64_t& field, std::int64_t low, std::int64_t high,
            std::string unit, std::string sentence);
// One of a few numbers.
Row number_of(std::string key, std::int64_t& field, std::vector<std::int64_t> numbers,
              std::string unit, std::string sentence);
Row real(std::string key, double& field, Range range, std::string unit,
         std::string sentence);
Row boolean(std::string key, bool& field, std::string sentence);
// Text for which `accepts` holds, which `allowed` describes.
Row text(std::string key, std::string& field, std::string allowed,
         std::function<bool(const std::string&)> accepts, std::string sentence);

template <class Enum, std::size_t n>
Row choice(std::string key, Enum& field, const std::array<Enum, n>& choices,
           std::string sentence) {
  std::string allowed;
  for (const Enum each : choices) {
    allowed += (allowed.empty() ? "one of " : ", ") + std::string(name(each));
  }
  return {.key = std::move(key),
          .sentence = std::move(sentence),
          .allowed = std::move(allowed),
          .unit = "",
          .form = "WORD",
          .assign =
              [&field, choices](std::string_view word) {
                for (const Enum each : choices) {
                  if (word != name(each)) continue;
                  field = each;
                  return true;
                }
                return false;
              },
          .text = [&field] { return std::string(name(field)); }};
}

// The shortest decimal that reads back as `value`.
std::string shortest(double value);

}  // namespace llmtrain::app
