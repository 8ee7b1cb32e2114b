// Names that the headers of safetensors files use; for their reader and writer.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace mt {

inline constexpr std::string_view kSafetensorsMetadata = "__metadata__";

// Most tensors of a file: what is known of them takes less than 64 MiB more than the file.
inline constexpr std::size_t kMostSafetensors = 1 << 15;

struct SafetensorsType {
  std::string_view name;
  unsigned bits;
  std::optional<DType> dtype = {};
};
inline constexpr SafetensorsType kSafetensorsTypes[] = {
    {"F64", 64, DType::f64},
    {"F32", 32, DType::f32},
    {"F16", 16, DType::f16},
    {"BF16", 16, DType::bf16},
    {"I64", 64, DType::i64},
    {"I32", 32, DType::i32},
    {"I16", 16, DType::i16},
    {"I8", 8, DType::i8},
    {"U8", 8, DType::u8},
    {"BOOL", 8, DType::boolean},
    {"U64", 64},
    {"U32", 32},
    {"U16", 16},
    {"C64", 64},
    {"F8_E5M2", 8},
    {"F8_E4M3", 8, DType::f8},
    {"F8_E8M0", 8, DType::u8},  // powers of two, as their bits
    {"F6_E2M3", 6},
    {"F6_E3M2", 6},
    {"F4", 4},
};

}  // namespace mt
