#include "app/options_values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "llmtrain/core/error.hpp"

namespace llmtrain::app {

namespace {

constexpr std::size_t kLongestText = 32768;

// Whether all of `text` is one number; out of range, such as 1e-999, is not.
template <class Number>
bool read_number(std::string_view text, Number& value) {
  const auto [end, fault] = std::from_chars(text.begin(), text.end(), value);
  return fault == std::errc() && end == text.end();
}

// Whether an input file can hold `text` behind "key = ".
bool fits_a_line(std::string_view text) {
  if (text.size() > kLongestText) return false;
  bool after_space = true;
  for (const char symbol : text) {
    const bool control = static_cast<unsigned char>(symbol) < ' ' && symbol != '\t';
    if (control || (symbol == '#' && after_space)) return false;
    after_space = symbol == ' ' || symbol == '\t';
  }
  return text.empty() || (text.front() != ' ' && text.front() != '\t' && !after_space);
}

std::string describe(const Range& range) {
  std::string words = "a number";
  if (range.low > -HUGE_VAL) {
    words += (range.open_low ? " above " : " from ") + shortest(range.low);
  }
  return words + (range.open_high ? " to below " : " to ") + shortest(range.high);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& symbol : result) {
    if (symbol >= 'A' && symbol <= 'Z') symbol = static_cast<char>(symbol - 'A' + 'a');
  }
  return result;
}

}  // namespace

std::string shortest(double value) {
  std::array<char, 32> buffer;
  const double size = std::fabs(value);
  const bool plain = value == 0 || (size >= 1e-4 && size < 1e9) || !std::isfinite(value);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto [end, fault] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format);
  require(fault == std::errc(), "a double in 32 characters");
  std::string text(buffer.data(), end);
  // 1e-08 is the same number as 1e-8.
  if (const auto sign = text.find_last_of("+-"); !plain && text[sign + 1] == '0') {
    text.erase(sign + 1, 1);
  }
  return text;
}

Row integer(std::string key, std::int64_t& field, std::int64_t low, std::int64_t high,
            std::string unit, std::string sentence) {
  return {.key = std::move(key),
          .sentence = std::move(sentence),
          .allowed = cat("an integer from ", low, " to ", high),
          .unit = std::move(unit),
          .form = "N",
          .assign =
              [&field, low, high](std::string_view text) {
                std::int64_t value = 0;
                if (!read_number(text, value) || value < low || value > high) {
                  return false;
                }
                field = value;
                return true;
              },
          .text = [&field] { return std::to_string(field); }};
}

Row number_of(std::string key, std::int64_t& field, std::vector<std::int64_t> numbers,
              std::string unit, std::string sentence) {
  Row row = integer(std::move(key), field, numbers.front(), numbers.back(),
                    std::move(unit), std::move(sentence));
  row.allowed.clear();
  for (const std::int64_t each : numbers) {
    row.allowed += cat(row.allowed.empty() ? "one of " : ", ", each);
  }
  row.assign = [&field, numbers = std::move(numbers)](std::string_view text) {
    std::int64_t value = 0;
    if (!read_number(text, value) || std::ranges::count(numbers, value) == 0) {
      return false;
    }
    field = value;
    return true;
  };
  return row;
}

Row real(std::string key, double& field, Range range, std::string unit,
         std::string sentence) {
  return {.key = std::move(key),
          .sentence = std::move(sentence),
          .allowed = describe(range),
          .unit = std::move(unit),
          .form = "X",
          .assign =
              [&field, range](std::string_view text) {
                double value = 0;
                if (!read_number(text, value) || !range.contains(value)) return false;
                field = value;
                return true;
              },
          .text = [&field] { return shortest(field); }};
}

Row boolean(std::string key, bool& field, std::string sentence) {
  return {.key = std::move(key),
          .sentence = std::move(sentence),
          .allowed = "one of true, false, yes, no, on, off, 1, 0",
          .unit = "",
          .form = "BOOL",
          .assign =
              [&field](std::string_view text) {
                const std::string word = lower(text);
                for (const char* yes : {"true", "yes", "on", "1"}) {
                  if (word == yes) return field = true;
                }
                for (const char* no : {"false", "no", "off", "0"}) {
                  if (word == no) return !(field = false);
                }
                return false;
              },
          .text = [&field] { return std::string(field ? "true" : "false"); }};
}

Row text(std::string key, std::string& field, std::string allowed,
         std::function<bool(const std::string&)> accepts, std::string sentence) {
  return {.key = std::move(key),
          .sentence = std::move(sentence),
          .allowed = std::move(allowed),
          .unit = "",
          .form = "TEXT",
          .assign =
              [&field, accepts = std::move(accepts)](std::string_view value) {
                if (!fits_a_line(value) || !accepts(std::string(value))) return false;
                field = value;
                return true;
              },
          .text = [&field] { return field; }};
}

}  // namespace llmtrain::app
