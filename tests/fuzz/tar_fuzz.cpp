// Any bytes as a shard: refused with one line, or members that lie within it.
// Parser: libcommon/data/energon/tar.cpp
// Seeds: testdata/energon/questions
#include "data/energon/tar.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "data/energon/energon_folder.h"
#include "tests/fuzz/file_of.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const mt::FileOf file(std::as_bytes(std::span(input, size)));
  try {
    const mt::MappedFile mapped(file.path());
    mt::TarReader tar(mapped);
    for (mt::TarMember member; tar.next(member);) {
      if (member.data > size || member.size > size - member.data) std::abort();
      mt::energon_name(member.name);
    }
  } catch (const mt::Error& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
