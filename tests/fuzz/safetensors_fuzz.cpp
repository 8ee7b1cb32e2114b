// Any bytes as a safetensors file: refused with mt::Error, or its tensors tile it.
//
// Parser: libcommon/ckpt/safetensors.cpp
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "ckpt/safetensors.h"

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
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
  }
  return 0;
}
