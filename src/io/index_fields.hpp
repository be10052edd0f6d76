// The fields of /progress and /provenance, listed once for writing, reading and sending,
// and the table's row.
#pragma once

#include <cstdint>

#include "io/hdf5.hpp"
#include "llmtrain/io/state.hpp"

namespace llmtrain::io {

// Calls f(name, member, description) for each field.
template <class ProgressType, class F>
void for_each_progress_field(ProgressType& progress, F f) {
  f("step", progress.step, "optimizer steps taken, applied or skipped");
  f("applied_steps", progress.applied_steps, "optimizer steps applied: the t of AdamW");
  f("skipped_in_row", progress.skipped_in_row,
    "non-finite steps since the last applied one");
  f("loss_scale", progress.loss_scale, "of the next step; 0: training was not in fp16");
  f("loss_scale_good_steps", progress.loss_scale_good_steps,
    "steps since the loss scale changed or an overflow");
  f("samples", progress.samples, "samples drawn since the start: the sampler's counter");
  f("epoch_size", progress.epoch_size, "samples of an epoch");
  f("tokens", progress.tokens, "labels trained on");
  f("last_loss", progress.last_loss, "loss of the last step, nats per token");
  f("best_validation_loss", progress.best_validation_loss,
    "lowest validation loss, nats per token; 0: none yet");
  f("best_validation_step", progress.best_validation_step, "the step that reached it");
  f("seed", progress.seed, "of every random number");
  f("data_fingerprint", progress.data_fingerprint, "what the training data was");
  f("data_order", progress.data_order, "in which the samples come");
  f("model", progress.model, "the function that the weights are of");
  f("required_ranks", progress.required_ranks,
    "the data-parallel size that the order of the data needs; 0: any");
}

template <class ProvenanceType, class F>
void for_each_provenance_field(ProvenanceType& provenance, F f) {
  f("time", provenance.time, "when this was saved, UTC");
  f("version", provenance.version, "of the program");
  f("hosts", provenance.hosts, "that the run was on");
  f("layout", provenance.layout, "how the run was spread over its ranks");
  f("input", provenance.input, "the input file with every default filled in");
}

// A row of /pieces in memory; unused dimensions are zero.
struct PieceRow {
  char tensor[256];
  char kind[16];
  std::int32_t shard, dims;
  std::int64_t global_shape[Shape::kMaxRank], box_offset[Shape::kMaxRank],
      box_extent[Shape::kMaxRank];
  std::int64_t begin, end, position;
};

// PieceRow as HDF5 sees it in memory; packed, it is the type in the file.
hdf5::Id piece_row_type(const hdf5::Source& source);

}  // namespace llmtrain::io
