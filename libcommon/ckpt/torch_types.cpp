#include "ckpt/torch_types.h"

#include <algorithm>

#include "base/error.h"

namespace mt {

PyValue torch_dtype(DType dtype) { return PyValue::global("torch", name_of(dtype)); }

std::optional<DType> dtype_of_torch(const PyValue& value) {
  for (const StorageClass& known : kStorageClasses)
    if (value.is_global("torch", name_of(known.dtype))) return known.dtype;
  return {};
}

PyValue torch_size(const Shape& shape) {
  std::vector<PyValue> extents(shape.extents().begin(), shape.extents().end());
  return PyValue::call(PyValue::global("torch", "Size"), {PyValue::tuple(std::move(extents))});
}

Shape shape_of_torch(const PyValue& value, std::string_view where) {
  const bool is_size = value.is_object("torch", "Size") && value.args().size() == 1;
  const std::vector<PyValue>& items = (is_size ? value.args()[0] : value).as_items(where);
  if (items.size() > Shape::kMaxRank)
    fail(Exit::bad_data, where, ": ", items.size(), " axes, expected at most ", Shape::kMaxRank);
  std::vector<std::int64_t> extents;
  std::int64_t product = 1;
  for (const PyValue& item : items) {
    extents.push_back(item.as_integer(where));
    if (extents.back() < 0 ||
        __builtin_mul_overflow(product, std::max<std::int64_t>(extents.back(), 1), &product))
      fail(Exit::bad_data, where, ": an extent of ", extents.back(), " is negative or too large");
  }
  return Shape(extents);
}

}  // namespace mt
