// Any bytes as a safetensors file: refused with mt::Error, or its tensors tile it and can be read,
// whole and by a row, copied and as they lie there.
//
// Parser: libcommon/ckpt/safetensors.cpp
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "ckpt/safetensors.h"
#include "tensor/buffer.h"
#include "tests/fuzz/file_of.h"

namespace {

void read(const mt::SafetensorsReader& reader, const mt::DistTensor& tensor) {
  const mt::Shape origin = mt::origin_of(tensor.shape.rank());
  const auto bytes = static_cast<std::size_t>(tensor.shape.numel()) * size_of(*tensor.dtype);
  const mt::Buffer buffer(mt::Device::cpu, bytes);
  const mt::Tensor whole = buffer.tensor(*tensor.dtype, tensor.shape);
  reader.read_original(tensor.key, origin, whole);
  const auto view = reader.view(tensor.key, origin, tensor.shape);
  if (!view || (bytes > 0 && std::memcmp(view->tensor.data(), whole.data(), bytes) != 0))
    std::abort();
  if (tensor.shape.rank() > 0 && tensor.shape[0] > 1) {
    const mt::Tensor first = whole.rows(0, 1);
    if (reader.view(tensor.key, origin, first.shape())) std::abort();
    reader.read_original(tensor.key, origin, first);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const mt::Bytes file = std::as_bytes(std::span(input, size));
  try {
    std::uint64_t held = 0;
    for (const auto& [key, tensor] : mt::parse_safetensors(file, "fuzz", "fuzz")) {
      const mt::ItemPlace& place = tensor.chunks.at(0).place;
      if (place.offset > size || place.length > size - place.offset) std::abort();
      held += place.length;
    }
    if (held > size) std::abort();
    const mt::FileOf on_disk(file);
    const mt::SafetensorsReader reader(on_disk.path());
    for (const auto& [key, tensor] : reader.tensors())
      if (tensor.dtype) read(reader, tensor);
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
  }
  return 0;
}
