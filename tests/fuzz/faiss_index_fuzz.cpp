// Any bytes as an index of faiss's: refused as bad data, or what is written of it is read as the
// same, and a search of it ends.
//
// Parser: libcommon/search/index_file.cpp
// Parser: libcommon/search/code_blocks.cpp
// Seeds: testdata/search
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "search/index_file.h"
#include "tests/fuzz/file_of.h"

static std::string bytes_of(const mt::VectorIndex& index) {
  std::string bytes;
  mt::write_index(index, [&](mt::Bytes some) { bytes += mt::as_text(some); });
  return bytes;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  try {
    mt::VectorIndex index =
        mt::read_index(mt::FileOf(std::as_bytes(std::span(input, size))).path());
    const std::string bytes = bytes_of(index);
    const mt::FileOf file(mt::as_bytes(bytes));
    if (bytes_of(mt::read_index(file.path())) != bytes) std::abort();
    if (index.columns() > 1 << 20) return 0;  // of vectors that no file has
    mt::Products products(1);
    const std::vector<float> vector(static_cast<std::size_t>(index.columns()), 0.5F);
    index.search(vector, {.count = 3}, products);
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
  }
  return 0;
}
