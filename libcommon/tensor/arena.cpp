#include "tensor/arena.h"

namespace mt {

static constexpr std::size_t kAlignment = 256;  // a cache line everywhere, and what GPUs like

Tensor Arena::alloc(DType dtype, const Shape& shape) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  const std::size_t begin = used_;
  const std::size_t end = begin + (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (end > storage_.bytes() && storage_.device() == Device::meta)
    fail(Exit::out_of_memory, "a step needs more than ", storage_.bytes(), " bytes at once");
  if (end > storage_.bytes())
    fail(Exit::internal, "an arena of ", storage_.bytes(), " bytes is full: ", end, " needed");
  used_ = end;
  peak_ = std::max(peak_, used_);
  return storage_.tensor(dtype, shape, begin);
}

}  // namespace mt
