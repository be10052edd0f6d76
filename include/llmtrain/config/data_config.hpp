// What the [data] section of the input file says.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace llmtrain {

enum class DataFormat {
  text,  // any bytes: ids 0-255, and 256 (end of text) after each file
  llmc,  // llm.c token shards with their header: GPT-2 (16 bits) or Llama 3 (32 bits)
  raw,   // little-endian token ids without a header
};
inline constexpr std::array kDataFormats{DataFormat::text, DataFormat::llmc,
                                         DataFormat::raw};

constexpr const char* name(DataFormat format) {
  switch (format) {
    case DataFormat::text:
      return "text";
    case DataFormat::llmc:
      return "llmc";
    case DataFormat::raw:
      return "raw";
  }
  return "?";
}

enum class DataOrder {
  shuffled,    // another permutation in each epoch
  sequential,  // as in the files
  torch,  // equal to PyTorch's DistributedSampler(shuffle=True); fixes the rank count
};
inline constexpr std::array kDataOrders{DataOrder::shuffled, DataOrder::sequential,
                                        DataOrder::torch};

constexpr const char* name(DataOrder order) {
  switch (order) {
    case DataOrder::shuffled:
      return "shuffled";
    case DataOrder::sequential:
      return "sequential";
    case DataOrder::torch:
      return "torch";
  }
  return "?";
}

struct DataConfig {
  DataFormat format = DataFormat::text;
  std::string train;                 // a path or a glob pattern
  std::string validation;            // the same; empty: see validation_fraction
  double validation_fraction = 0.0;  // in [0, 1): the last part of the training samples
                                     // that is held out when `validation` is empty
  std::int64_t token_bytes = 2;      // of format raw: 2 or 4
  DataOrder order = DataOrder::shuffled;
  bool document_mask = false;     // neither attention nor labels cross documents
  std::int64_t end_of_text = -1;  // the id that ends a document; -1: what the format says
};

}  // namespace llmtrain
