// Any bytes as .metadata: refused with mt::Error, or chunks that tile their tensors.
//
// Parser: libcommon/ckpt/dist_metadata_reader.cpp
// Parser: libcommon/ckpt/dist_tiling.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "ckpt/dist_metadata.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  try {
    const mt::DistMetadata metadata =
        mt::parse_dist_metadata(std::as_bytes(std::span(input, size)), "fuzz");
    for (const auto& [key, tensor] : metadata.tensors)
      if (mt::why_not_tiling(tensor.shape, tensor.chunks)) std::abort();
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
  }
  return 0;
}
