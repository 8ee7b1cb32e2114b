#include "tensor/fields.h"

namespace mt {

static constexpr std::int64_t kAlignment = 256;  // bytes

static std::int64_t room_of(const FieldSpec& spec, std::int64_t samples, DType real) {
  const std::int64_t bytes =
      samples * spec.per_sample * static_cast<std::int64_t>(size_of(spec.stored_as(real)));
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::int64_t fields_bytes(const FieldSpecs& specs, std::int64_t samples, DType real) {
  std::int64_t bytes = 0;
  for (const FieldSpec& spec : specs) bytes += room_of(spec, samples, real);
  return bytes;
}

Fields fields_in(const Tensor& block, const FieldSpecs& specs, std::int64_t samples, DType real) {
  Fields fields;
  std::int64_t at = 0;
  for (const FieldSpec& spec : specs) {
    fields[spec.field] = Tensor(static_cast<std::byte*>(block.data()) + at, spec.stored_as(real),
                                {samples * spec.per_sample}, block.device());
    at += room_of(spec, samples, real);
  }
  return fields;
}

}  // namespace mt
