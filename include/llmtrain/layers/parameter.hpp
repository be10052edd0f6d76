// Parameters are rows: a weight is declared once, and allocation, initial values, file
// paths, shards, norms, counts and optimizer groups derive from the row.
//
// The rows of one unit (a block, the embedding, the head) form a ParameterSet: one flat
// range of elements per kind of buffer, ordered (decayed, not decayed). Layers declare
// rows and keep Parameter handles; whoever owns the buffers binds them before a layer
// computes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "llmtrain/tensor/tensor_view.hpp"

namespace llmtrain {

struct Initializer {
  enum class Kind { zeros, ones, normal, kaiming_uniform };
  Kind kind = Kind::zeros;
  float scale =
      0;  // normal: standard deviation; kaiming_uniform: bound sqrt(3 / fan_in) * scale
};

// How tensor parallelism cuts a row.
enum class Split { none, column, row, vocabulary };

struct ParameterSpec {
  std::string name;  // canonical path, such as blocks/003/attention/q/weight
  Shape shape;       // global, unpadded: what files hold
  Initializer initializer;
  bool decayed = false;  // by weight decay
  Split split = Split::none;
  // Rows in memory when more than shape[0]: the padding is zero and stays zero.
  index_t padded_rows = 0;

  index_t stored_count() const {
    return padded_rows > 0 ? padded_rows * (shape.count() / shape[0]) : shape.count();
  }
};

// A declared row with its place in the flat range of its set.
struct ParameterRow {
  ParameterSpec spec;
  index_t offset = 0;
};

class ParameterSet;

// What a layer keeps of adjacent rows that it reads as one matrix (one row, or several
// such as q, k, v). Valid as long as its set.
class Parameter {
 public:
  Parameter() = default;
  // All adjacent rows as one tensor, padding rows included: [sum of rows, columns] or
  // [n]. Throws Error(internal) when the unit has not been acquired.
  TensorView weight() const;
  TensorView gradient() const;
  bool exists() const { return set_ != nullptr; }

 private:
  friend class ParameterSet;
  TensorView in(const TensorView& flat, const char* what) const;

  const ParameterSet* set_ = nullptr;
  std::size_t first_ = 0;
  Shape shape_;
};

// Not copyable or movable: handles point to it.
class ParameterSet {
 public:
  // `name` says whose rows these are ("blocks/003") and is used in messages.
  explicit ParameterSet(std::string name) : name_(std::move(name)) {}
  ParameterSet(const ParameterSet&) = delete;
  ParameterSet& operator=(const ParameterSet&) = delete;

  // Declares rows that stay adjacent without padding between them; equal trailing
  // extents and equal `decayed`. Only before seal().
  Parameter declare(std::vector<ParameterSpec> adjacent);

  // Fixes the order and the offsets; rows() are in order of offset afterwards.
  void seal();

  const std::string& name() const { return name_; }
  const std::vector<ParameterRow>& rows() const { return rows_; }
  // Elements of the flat range, gaps for alignment and padding rows included.
  index_t size() const { return size_; }
  // The rows that weight decay applies to are elements [0, decayed_size()).
  index_t decayed_size() const { return decayed_size_; }
  // Parameters as files and papers count them.
  index_t parameter_count() const;

  // The buffers that handles resolve to, at least size() elements; an empty view (count
  // 0) unbinds. The caller keeps them alive.
  void bind_weights(TensorView flat) { weights_ = flat; }
  void bind_gradients(TensorView flat) { gradients_ = flat; }

  // Writes the initial values of elements [begin, begin + out.count()) of the flat range
  // into `out` (any floating-point dtype, host memory): f32 values, rounded, that are a pure
  // function of (seed, row name, element), whatever the cut.
  void initialize(TensorView out, index_t begin, std::uint64_t seed) const;

 private:
  friend class Parameter;
  std::string name_;
  std::vector<ParameterRow> rows_;
  std::vector<std::size_t> group_starts_;  // index of each group's first row, as declared
  std::vector<index_t> first_offsets_;     // by row as declared: offset after seal
  index_t size_ = 0, decayed_size_ = 0;
  bool sealed_ = false;
  TensorView weights_, gradients_;
};

}  // namespace llmtrain
