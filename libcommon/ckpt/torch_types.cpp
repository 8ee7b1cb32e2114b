#include "ckpt/torch_types.h"

#include <algorithm>
#include <cstring>

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

// An int, or a numpy.int64, which Megatron's offsets of flattened parts of a tensor are.
static std::int64_t integer_of(const PyValue& value, std::string_view where) {
  const bool is_scalar = value.is_object("numpy.core.multiarray", "scalar") ||
                         value.is_object("numpy._core.multiarray", "scalar");
  if (!is_scalar) return value.as_integer(where);
  const std::vector<PyValue>& args = value.args();
  const bool is_int64 = args.size() == 2 && args[0].is_object("numpy", "dtype") &&
                        !args[0].args().empty() && args[0].args()[0] == PyValue("i8");
  std::int64_t number = 0;
  if (!is_int64 || args[1].as_bytes(where).size() != sizeof number)
    fail(Exit::bad_data, where, ": is a number of numpy's, expected an int64");
  std::memcpy(&number, args[1].as_bytes(where).data(), sizeof number);
  return number;
}

Shape shape_of_torch(const PyValue& value, std::string_view where) {
  const bool is_size = value.is_object("torch", "Size") && value.args().size() == 1;
  const std::vector<PyValue>& items = (is_size ? value.args()[0] : value).as_items(where);
  if (items.size() > Shape::kMaxRank)
    fail(Exit::bad_data, where, ": ", items.size(), " axes, expected at most ", Shape::kMaxRank);
  std::vector<std::int64_t> extents;
  std::int64_t product = 1;
  for (const PyValue& item : items) {
    extents.push_back(integer_of(item, where));
    if (extents.back() < 0 ||
        __builtin_mul_overflow(product, std::max<std::int64_t>(extents.back(), 1), &product))
      fail(Exit::bad_data, where, ": an extent of ", extents.back(), " is negative or too large");
  }
  return Shape(extents);
}

}  // namespace mt
