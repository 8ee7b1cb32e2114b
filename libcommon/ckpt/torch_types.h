// Element types, storages and shapes as torch.save names them.
#pragma once

#include <optional>
#include <string_view>

#include "ckpt/pickle.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace mt {

// Storage classes of module `torch`, and their element types.
struct StorageClass {
  std::string_view name;
  DType dtype;
};
inline constexpr StorageClass kStorageClasses[] = {
    {"FloatStorage", DType::f32},     {"DoubleStorage", DType::f64}, {"HalfStorage", DType::f16},
    {"BFloat16Storage", DType::bf16}, {"LongStorage", DType::i64},   {"IntStorage", DType::i32},
    {"ShortStorage", DType::i16},     {"CharStorage", DType::i8},    {"ByteStorage", DType::u8},
    {"BoolStorage", DType::boolean}};

// GLOBAL torch float32 and so on; nullopt for an element type that DType lacks.
PyValue torch_dtype(DType dtype);
std::optional<DType> dtype_of_torch(const PyValue& value);

// torch.Size((2, 3)), and the shape of one, or of a plain tuple or list, of ints or numpy.int64: at
// most kMaxRank axes, and a numel() that does not overflow, or Exit::bad_data.
PyValue torch_size(const Shape& shape);
Shape shape_of_torch(const PyValue& value, std::string_view where);

}  // namespace mt
