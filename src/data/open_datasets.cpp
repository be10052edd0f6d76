// From the configuration to checked datasets. Faults are collected over all files, so
// that one run shows everything that has to be mended.
#include <cmath>

#include "data/matching_paths.hpp"
#include "llmtrain/core/error.hpp"
#include "llmtrain/data/dataset.hpp"

namespace llmtrain::data {
namespace {

class Faults {
 public:
  void add(Status status, const std::string& text) {
    // What a person has to mend comes before what may pass by itself.
    if (text_.empty() || status_ == Status::io) status_ = status;
    text_ += (text_.empty() ? "" : "\n") + text;
  }
  void throw_if_any() const {
    if (!text_.empty()) throw Error(status_, text_);
  }

 private:
  Status status_ = Status::bad_data;
  std::string text_;
};

void check_config(const DataConfig& config, index_t vocabulary) {
  Faults faults;
  const auto refuse = [&faults](const auto&... text) {
    faults.add(Status::usage, cat(text...));
  };
  if (config.train.empty()) {
    refuse("data.train is empty; allowed: a file or a pattern such as data/*.bin");
  }
  if (config.format == DataFormat::raw && config.token_bytes != 2 &&
      config.token_bytes != 4) {
    refuse("data.token_bytes = ", config.token_bytes, "; allowed: 2, 4");
  }
  if (!(config.validation_fraction >= 0 && config.validation_fraction < 1)) {
    refuse("data.validation_fraction = ", config.validation_fraction,
           "; allowed: 0 to below 1");
  }
  if (config.validation_fraction > 0 && !config.validation.empty()) {
    refuse("data.validation and data.validation_fraction = ", config.validation_fraction,
           " are both given; allowed: one of them");
  }
  if (vocabulary < format_vocabulary(config.format)) {
    refuse("data.format = ", name(config.format), " has ",
           format_vocabulary(config.format), " ids, the model's vocabulary only ",
           vocabulary, "; hint: a larger vocabulary, or tokenized data");
  }
  if (config.end_of_text < -1 || config.end_of_text >= vocabulary) {
    refuse("data.end_of_text = ", config.end_of_text,
           "; allowed: -1 (what the format says)",
           " or an id of the model's vocabulary, 0 to ", vocabulary - 1);
  }
  if (config.document_mask && config.format == DataFormat::raw &&
      config.end_of_text < 0) {
    refuse(
        "data.document_mask needs data.end_of_text with data.format = raw; hint: 50256 ",
        "for GPT-2 ids");
  }
  faults.throw_if_any();
}

std::vector<TokenFile> open_files(Faults& faults, const char* key,
                                  const std::string& pattern, const DataConfig& config,
                                  index_t seq_len) {
  std::vector<TokenFile> files;
  std::vector<std::string> paths;
  const auto collect = [&](auto&& action) {
    try {
      action();
    } catch (const Error& error) {
      faults.add(error.status(), cat(key, ": ", error.what()));
    }
  };
  collect([&] { paths = matching_paths(pattern); });
  for (const std::string& path : paths) {
    collect([&] {
      TokenFile file(path, config.format, config.token_bytes);
      if (file.tokens() < seq_len + 1) {
        fail(Status::bad_data, path, ": has ", file.tokens(),
             " tokens; allowed: at least ", "seq_len + 1 = ", seq_len + 1,
             ", one sample; hint: join short files or shorten the sequence");
      }
      files.push_back(std::move(file));
    });
  }
  return files;
}

// Faults between files: one read twice, or ids of two tokenizers.
void check_together(Faults& faults, const std::vector<const TokenFile*>& files) {
  for (std::size_t i = 1; i < files.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!files[i]->is_same_file(*files[j])) continue;
      faults.add(Status::bad_data,
                 cat(files[i]->path(), ": the same file as ", files[j]->path(),
                     "; allowed: each file once, in training or in validation; hint: a ",
                     "narrower pattern, or remove the link"));
      break;
    }
    if (files[i]->token_bytes() != files[0]->token_bytes()) {
      faults.add(Status::bad_data,
                 cat(files[i]->path(), ": ids of ", files[i]->token_bytes(),
                     " bytes, but ", files[0]->path(), " has ", files[0]->token_bytes(),
                     "; allowed: one kind; hint: these are different tokenizers"));
    }
  }
}

std::int32_t document_end(const DataConfig& config, const TokenFile& file) {
  if (!config.document_mask) return -1;
  return config.end_of_text >= 0 ? static_cast<std::int32_t>(config.end_of_text)
                                 : file.end_of_text();
}

// The last samples become the validation set, at least one when any are asked for.
Datasets hold_out(const Dataset& all, double fraction) {
  if (fraction == 0) return {all, {}};
  const auto share = std::llround(fraction * static_cast<double>(all.samples()));
  const index_t held_out = std::max<index_t>(1, share);
  const index_t kept = all.samples() - held_out;
  if (kept <= 0) {
    fail(Status::bad_data, "data.validation_fraction = ", fraction, " holds out ",
         held_out, " of ", all.samples(),
         " samples; allowed: what leaves at least one to train on; ",
         "hint: a smaller fraction, or more data");
  }
  return {all.part(0, kept), all.part(kept, held_out)};
}

}  // namespace

Datasets open_datasets(const DataConfig& config, index_t seq_len, index_t vocabulary) {
  check_config(config, vocabulary);
  Faults faults;
  auto train = open_files(faults, "data.train", config.train, config, seq_len);
  std::vector<TokenFile> validation;
  if (!config.validation.empty()) {
    validation =
        open_files(faults, "data.validation", config.validation, config, seq_len);
  }
  std::vector<const TokenFile*> files;
  for (const TokenFile& file : train) files.push_back(&file);
  for (const TokenFile& file : validation) files.push_back(&file);
  check_together(faults, files);
  faults.throw_if_any();

  const auto dataset = [&](std::vector<TokenFile> of) {
    const std::int32_t end = document_end(config, of.front());
    return Dataset(std::make_shared<const std::vector<TokenFile>>(std::move(of)), seq_len,
                   vocabulary, end);
  };
  if (validation.empty()) {
    return hold_out(dataset(std::move(train)), config.validation_fraction);
  }
  return {dataset(std::move(train)), dataset(std::move(validation))};
}

}  // namespace llmtrain::data
