// Any bytes as an importance matrix, of either form: refused as bad data, or it is of something.
// Parser: libcommon/formats/gguf/importance_matrix.cpp
// Seeds: tests/fuzz/corpus/gguf_fuzz
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "formats/gguf/importance_matrix.h"
#include "tests/fuzz/file_of.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  try {
    const mt::FileOf file(std::as_bytes(std::span(input, size)));
    if (mt::ImportanceMatrix(file.path()).tensors() == 0) std::abort();
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
  }
  return 0;
}
