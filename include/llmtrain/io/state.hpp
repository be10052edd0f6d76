// What a checkpoint holds, free of layout: pieces of canonical tensors, and the numbers
// that a run needs to go on bit for bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llmtrain/tensor/tensor_view.hpp"

namespace llmtrain::io {

enum class TensorKind { weight, exp_avg, exp_avg_sq };
const char* name(TensorKind kind);  // the group in the files

// A hyper-rectangle of a global tensor: offset and extent by dimension.
struct Box {
  Shape offset, extent;
};

// Elements [begin, begin + data.count()) in row-major order of `box` of the tensor
// `name`, whose unpadded global shape is `global`. Names are canonical, never relative to
// a rank. The data is borrowed, f32, host memory.
struct Piece {
  std::string name;  // "blocks/003/attention/q/weight"
  TensorKind kind;
  Shape global;
  Box box;
  index_t begin;
  TensorView data;
};

// The same on every rank; equal for equal training, whatever the layout.
struct Progress {
  std::int64_t step = 0;            // optimizer steps taken (applied or skipped)
  std::int64_t applied_steps = 0;   // AdamW's t
  std::int64_t skipped_in_row = 0;  // non-finite steps since the last applied one
  double loss_scale = 0;            // of the next step; 0: not in fp16
  std::int64_t loss_scale_good_steps = 0;
  std::int64_t samples = 0;     // the sampler's counter
  std::int64_t epoch_size = 0;  // samples of an epoch
  std::int64_t tokens = 0;      // labels trained on so far
  double last_loss = 0;
  double best_validation_loss = 0;  // 0: none yet
  std::int64_t best_validation_step = 0;
  std::uint64_t seed = 0;
  std::string data_fingerprint;
  std::string data_order;  // shuffled, sequential, torch
  std::string model;       // what shapes alone do not tell: describe(ModelConfig)
  // The data-parallel size that the data order needs; 0: any.
  std::int64_t required_ranks = 0;

  bool operator==(const Progress&) const = default;
};

// What wrote it; may differ between runs that are otherwise equal.
struct Provenance {
  std::string input;    // the resolved input file
  std::string layout;   // the grid and the ZeRO stage
  std::string version;  // of the program
  std::string hosts;
  std::string time;  // filled in when saving: "2026-01-31 12:00:00 UTC"
};

}  // namespace llmtrain::io
