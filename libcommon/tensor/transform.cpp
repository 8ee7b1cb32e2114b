#include "tensor/transform.h"

#include <cstring>
#include <functional>

namespace mt {

Shape transformed_shape(const Transform& transform, Shape shape) {
  for (const Rearrange& step : transform) {
    switch (step.kind) {
      case Rearrange::Kind::transpose:
        assert(shape.rank() == 2);
        shape = Shape{shape[1], shape[0]};
        break;
      case Rearrange::Kind::rows:
        assert(shape[0] % step.period == 0);
        shape = Shape(shape.extents().subspan(1)).with_front(shape[0] / step.period * step.count);
        break;
      case Rearrange::Kind::exchange:
        assert(shape[0] % (step.outer * step.inner) == 0);
        break;
    }
  }
  return shape;
}

// Where element `index` of a tensor lies in the one of `shape` that `step` made it from.
static std::int64_t undo(const Rearrange& step, const Shape& shape, std::int64_t index) {
  if (step.kind == Rearrange::Kind::transpose)
    return index % shape[0] * shape[1] + index / shape[0];
  const std::int64_t width = shape.numel() / shape[0];
  std::int64_t row = index / width;
  if (step.kind == Rearrange::Kind::rows) {
    row = row / step.count * step.period + step.first + row % step.count;
  } else {
    const std::int64_t rest = shape[0] / (step.outer * step.inner);
    const std::int64_t inner = row / rest / step.outer, outer = row / rest % step.outer;
    row = (outer * step.inner + inner) * rest + row % rest;
  }
  return row * width + index % width;
}

static void for_each_pair(const Transform& transform, const Shape& ours, const Shape& theirs,
                          const std::function<void(std::int64_t, std::int64_t)>& visit) {
  std::vector<Shape> before;  // the shape ahead of each step
  for (std::size_t i = 0; i < transform.size(); ++i)
    before.push_back(i == 0 ? ours : transformed_shape({transform[i - 1]}, before.back()));
  assert(transformed_shape(transform, ours) == theirs);
  for (std::int64_t i = 0; i < theirs.numel(); ++i) {
    std::int64_t index = i;
    for (std::size_t step = transform.size(); step-- > 0;)
      index = undo(transform[step], before[step], index);
    visit(i, index);
  }
}

static std::byte* element(const ConstTensor& tensor, std::int64_t index) {
  return static_cast<std::byte*>(const_cast<void*>(tensor.data())) +
         static_cast<std::size_t>(index) * size_of(tensor.dtype());
}

void apply(const Transform& transform, Tensor theirs, ConstTensor ours) {
  assert(theirs.dtype() == ours.dtype());
  for_each_pair(transform, ours.shape(), theirs.shape(), [&](std::int64_t t, std::int64_t o) {
    std::memcpy(element(theirs, t), element(ours, o), size_of(ours.dtype()));
  });
}

void apply_inverse(const Transform& transform, Tensor ours, ConstTensor theirs) {
  assert(theirs.dtype() == ours.dtype());
  for_each_pair(transform, ours.shape(), theirs.shape(), [&](std::int64_t t, std::int64_t o) {
    std::memcpy(element(ours, o), element(theirs, t), size_of(ours.dtype()));
  });
}

}  // namespace mt
