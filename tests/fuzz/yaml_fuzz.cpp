// Any bytes as YAML: refused with one line, or a value.
// Parser: libcommon/text/yaml.cpp
#include "text/yaml.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(input), size);
  try {
    const mt::ChatValue value = mt::parse_yaml(text, "yaml", {.omegaconf = size % 2 == 1});
    if (value.is_undefined()) std::abort();
  } catch (const mt::Error& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
