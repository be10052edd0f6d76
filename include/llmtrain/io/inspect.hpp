// What checkpoints say about themselves, for people: without a model, without MPI, without
// changing anything. Local calls.
#pragma once

#include <string>
#include <vector>

#include "llmtrain/io/state.hpp"

namespace llmtrain::io {

struct CheckpointEntry {
  std::string path;
  std::string fault;  // why it is not complete (sizes, MANIFEST); empty: it is
  std::int64_t step = 0;
  index_t bytes = 0;  // of all files
  double loss = 0;
  std::string time;
};

// The checkpoints of a directory, oldest first. Throws Error(io) when it cannot be listed.
std::vector<CheckpointEntry> list_checkpoints(const std::string& directory);

struct TensorEntry {
  TensorKind kind;
  std::string name;
  Shape shape;
  index_t pieces = 0;
};

struct CheckpointContents {
  Progress progress;
  Provenance provenance;
  std::vector<TensorEntry> tensors;
  index_t files = 0, bytes = 0;
};

// Throws Error(bad_data) when MANIFEST or index.h5 is damaged.
CheckpointContents read_contents(const std::string& path);

struct Verification {
  std::vector<std::string> faults;  // one line each; empty: the checkpoint is good
  index_t files = 0, bytes = 0, tensors = 0, elements = 0;
  index_t not_a_number = 0;  // elements; more than none is a fault
};

// Checks every digest, that every element of every tensor is held once, that the shards
// hold what the table says, and looks at every element. Reads every byte twice.
Verification verify_checkpoint(const std::string& path);

}  // namespace llmtrain::io
