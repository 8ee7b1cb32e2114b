// Any bytes as a SentencePiece model: refused with mt::Error, or one that encodes and decodes.
//
// Parser: libcommon/text/sentencepiece/protobuf_reader.cpp
// Parser: libcommon/text/sentencepiece/sentencepiece_model.cpp
// Parser: libcommon/text/sentencepiece/charsmap.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "text/sentencepiece/sentencepiece.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(input), size);
  try {
    const mt::SentencePiece model(content, "fuzz");
    std::vector<std::int32_t> ids;
    for (const std::string_view text :
         {" Tom  has\ta cat. <sep>of the\xC3\xA9\xFF", "aaaaaaaaaaaa"})
      model.encode(text, ids);
    for (const std::int32_t id : ids)
      if (id < 0 || id >= model.size()) std::abort();
    model.decode(ids);
  } catch (const mt::Error& error) {
    if (error.code() != mt::Exit::bad_data) std::abort();
  }
  return 0;
}
