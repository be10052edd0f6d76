// TensorView: what crosses every boundary. It borrows; the Buffer or Arena behind it
// owns.
#pragma once

#include <cstddef>

#include "llmtrain/tensor/dtype.hpp"
#include "llmtrain/tensor/shape.hpp"

namespace llmtrain {

// Dense row-major elements of one dtype. The data pointer is null on the meta device,
// where shapes are real and memory is only counted.
class TensorView {
 public:
  TensorView() = default;
  TensorView(void* data, Dtype dtype, Shape shape)
      : data_(static_cast<std::byte*>(data)), dtype_(dtype), shape_(shape) {}

  const Shape& shape() const { return shape_; }
  Dtype dtype() const { return dtype_; }
  index_t count() const { return shape_.count(); }
  index_t bytes() const { return count() * size_bytes(dtype_); }
  bool is_meta() const { return data_ == nullptr; }

  // The elements; throws Error(internal) when T is not the dtype.
  template <class T>
  T* data() const {
    require(dtype_ == DtypeOf<T>::value, "this tensor holds ", name(dtype_));
    return reinterpret_cast<T*>(data_);
  }
  // Where the elements begin, whatever they are: for what only moves bytes.
  std::byte* storage() const { return data_; }

  // Rows [begin, begin + rows) of the first dimension.
  TensorView rows(index_t begin, index_t rows) const {
    require(shape_.rank() >= 1 && begin >= 0 && rows >= 0 && begin + rows <= shape_[0],
            "rows ", begin, " + ", rows, " of ", shape_.text());
    const index_t stride = shape_[0] == 0 ? 0 : count() / shape_[0];
    return {offset(begin * stride), dtype_, shape_.with_rows(rows)};
  }
  // Elements [begin, begin + count) as one dimension.
  TensorView flat(index_t begin, index_t count) const {
    require(begin >= 0 && count >= 0 && begin + count <= this->count(), "elements ",
            begin, " + ", count, " of ", shape_.text());
    return {offset(begin), dtype_, Shape{count}};
  }
  TensorView flat() const { return flat(0, count()); }
  // The same elements in another shape of equal count.
  TensorView as(Shape shape) const {
    require(shape.count() == count(), "cannot view ", shape_.text(), " as ",
            shape.text());
    return {data_, dtype_, shape};
  }

 private:
  std::byte* offset(index_t elements) const {
    return data_ == nullptr ? nullptr : data_ + elements * size_bytes(dtype_);
  }

  std::byte* data_ = nullptr;
  Dtype dtype_ = Dtype::f32;
  Shape shape_{0};
};

}  // namespace llmtrain
