#include "ckpt/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/half.h"

namespace mt {
namespace {

// Through double or float, which hold every value of the source.
template <class To, class From>
To to_type(From value) {
  if constexpr (sizeof(From) == 2 || sizeof(To) == 2)
    return static_cast<To>(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

template <class To, class From>
void convert(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride,
             std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    From element;
    std::memcpy(&element, from + i * from_stride, sizeof element);
    const To converted = to_type<To>(element);
    std::memcpy(to + i * to_stride, &converted, sizeof converted);
  }
}

template <class Body>
void with_stored_float(DType dtype, const Body& body) {
  if (dtype == DType::bf16) return body.template operator()<Bf16>();
  if (dtype == DType::f16) return body.template operator()<Fp16>();
  with_float_type(dtype, body);
}

// One axis; strides in bytes.
void copy_run(const StridedCopy& copy, std::byte* to, std::int64_t to_stride, const std::byte* from,
              std::int64_t from_stride, std::int64_t count) {
  const auto size = static_cast<std::int64_t>(size_of(copy.from_dtype));
  const bool dense = to_stride == size && from_stride == size;
  if (copy.to_dtype != copy.from_dtype)
    return with_stored_float(copy.to_dtype, [&]<class To>() {
      with_stored_float(copy.from_dtype, [&]<class From>() {
        convert<To, From>(to, to_stride, from, from_stride, count);
      });
    });
  if (dense && !copy.swap_bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(count * size));
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::byte* const element = to + i * to_stride;
    if (copy.swap_bytes)
      std::reverse_copy(from + i * from_stride, from + i * from_stride + size, element);
    else
      std::memcpy(element, from + i * from_stride, static_cast<std::size_t>(size));
  }
}

}  // namespace

void run(const StridedCopy& copy) {
  const std::span<const std::int64_t> extents = copy.extents.extents();
  for (const std::int64_t extent : extents)
    if (extent == 0) return;
  if (copy.to_dtype != copy.from_dtype && copy.swap_bytes)
    fail(Exit::bad_data, "cannot convert elements of the other byte order");
  const auto to_size = static_cast<std::int64_t>(size_of(copy.to_dtype));
  const auto from_size = static_cast<std::int64_t>(size_of(copy.from_dtype));
  // The last axes that are dense in both places make one run.
  std::size_t outer = extents.size();
  std::int64_t count = 1, to_stride = to_size, from_stride = from_size;
  while (outer > 0 && (extents[outer - 1] == 1 || (copy.to_strides[outer - 1] == count &&
                                                   copy.from_strides[outer - 1] == count)))
    count *= extents[--outer];
  if (count == 1 && outer > 0) {
    --outer;
    count = extents[outer];
    to_stride = copy.to_strides[outer] * to_size;
    from_stride = copy.from_strides[outer] * from_size;
  }
  std::vector<std::int64_t> index(outer, 0);
  std::byte* to = copy.to;
  const std::byte* from = copy.from;
  for (;;) {
    copy_run(copy, to, to_stride, from, from_stride, count);
    std::size_t axis = outer;
    while (axis > 0) {
      --axis;
      to += copy.to_strides[axis] * to_size;
      from += copy.from_strides[axis] * from_size;
      if (++index[axis] < extents[axis]) break;
      to -= index[axis] * copy.to_strides[axis] * to_size;
      from -= index[axis] * copy.from_strides[axis] * from_size;
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (outer == 0) return;
  }
}

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(static_cast<std::size_t>(shape.rank()));
  std::int64_t stride = 1;
  for (int axis = shape.rank(); axis-- > 0;) {
    strides[static_cast<std::size_t>(axis)] = stride;
    stride *= std::max<std::int64_t>(shape[axis], 1);
  }
  return strides;
}

}  // namespace mt
