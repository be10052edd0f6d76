// What every op checks before it dispatches. Messages are built only on failure, so that
// a check costs no allocation.
#pragma once

#include "llmtrain/ops/dropout.hpp"
#include "llmtrain/tensor/tensor_view.hpp"

namespace llmtrain::ops {

inline bool is_empty(const TensorView& view) { return view.count() == 0; }

inline void check_dtype(const char* op, const char* argument, const TensorView& view,
                        Dtype dtype) {
  if (view.dtype() != dtype) [[unlikely]] {
    fail(Status::internal, op, ": ", argument, " holds ", name(view.dtype()), ", not ",
         name(dtype));
  }
}

inline void check_floating(const char* op, const char* argument, const TensorView& view) {
  if (!is_floating(view.dtype())) [[unlikely]] {
    fail(Status::internal, op, ": ", argument, " holds ", name(view.dtype()),
         ", not floating-point numbers");
  }
}

// Throws Error(internal) naming op and argument unless `view` has this dtype and shape.
inline void check_tensor(const char* op, const char* argument, const TensorView& view,
                         const Shape& shape, Dtype dtype) {
  check_dtype(op, argument, view, dtype);
  if (view.shape() != shape) [[unlikely]] {
    fail(Status::internal, op, ": ", argument, " has shape ", view.shape().text(),
         ", not ", shape.text());
  }
}

// The same with any floating-point dtype: gradients of parameters choose theirs.
inline void check_floating(const char* op, const char* argument, const TensorView& view,
                           const Shape& shape) {
  check_floating(op, argument, view);
  check_tensor(op, argument, view, shape, view.dtype());
}

// The number of elements, whatever shape and dtype.
inline void check_count(const char* op, const char* argument, const TensorView& view,
                        index_t count) {
  if (view.count() != count) [[unlikely]] {
    fail(Status::internal, op, ": ", argument, " has ", view.count(), " elements, not ",
         count);
  }
}

// A matrix of any size and floating-point dtype.
inline void check_matrix(const char* op, const char* argument, const TensorView& view) {
  check_floating(op, argument, view);
  if (view.shape().rank() != 2) [[unlikely]] {
    fail(Status::internal, op, ": ", argument, " has shape ", view.shape().text(),
         ", not two dimensions");
  }
}

// Throws unless the probability is in [0, 1) and, when dropout is on, the positions cut
// `rows` into sequences of equal length.
inline void check_dropout(const char* op, const Dropout& dropout, index_t rows) {
  if (!(dropout.probability >= 0.0f && dropout.probability < 1.0f)) [[unlikely]] {
    fail(Status::internal, op, ": dropout.probability is ", dropout.probability,
         ", not in [0, 1)");
  }
  const auto sequences = static_cast<index_t>(dropout.positions.size());
  if (dropout.probability > 0.0f && rows > 0 && (sequences == 0 || rows % sequences != 0))
      [[unlikely]] {
    fail(Status::internal, op, ": dropout.positions has ", sequences, " sequences for ",
         rows, " rows");
  }
}

}  // namespace llmtrain::ops
