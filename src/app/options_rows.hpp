// The table of keys. A row knows how to read, write and describe one field of a Config;
// everything else about keys is done over rows.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "llmtrain/config/config.hpp"

namespace llmtrain::app {

struct Row {
  std::string key;       // section.name
  std::string sentence;  // without the full stop
  std::string allowed;   // "an integer from 1 to 1024"
  std::string unit;      // "steps"; may be empty
  std::string form;      // "N": stands for the value in --help
  // Sets the field; returns false and leaves it alone when `text` is not allowed.
  std::function<bool(std::string_view text)> assign;
  // The field as text that assign() reads back exactly.
  std::function<std::string()> text;

  std::string section() const { return key.substr(0, key.find('.')); }
  std::string name() const { return key.substr(key.find('.') + 1); }
};

// Every key, in the order of the reference, on the fields of `config`, which must outlive
// the rows.
std::vector<Row> rows(Config& config);

// Those of a Config with defaults, for what concerns only names.
const std::vector<Row>& default_rows();

// nullptr when there is none.
const Row* find_row(const std::vector<Row>& rows, std::string_view key);

// The one of `words` that somebody who wrote `word` may have meant; empty: none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& words);

}  // namespace llmtrain::app
