// Any bytes as a Parquet file: refused with one line, or lines of JSON.
// Parser: libcommon/base/parquet/lines.cpp
// Seeds: testdata/parquet
#include "base/parquet/lines.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "tests/fuzz/file_of.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const mt::FileOf file(std::as_bytes(std::span(input, size)));
  try {
    mt::ParquetLines lines(file.path(), "fuzz");
    std::array<char, 4096> piece;
    for (std::size_t all = 0; all < std::size_t{64} << 20;) {  // rows of nulls take no bytes
      const std::size_t count = lines.read(piece);
      if (count == 0) break;
      all += count;
    }
  } catch (const mt::Error& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
