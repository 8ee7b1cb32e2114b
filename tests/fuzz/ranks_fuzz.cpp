// Any bytes as a file of ranks: refused with one line, or its merges give every token whole.
// Parser: libcommon/text/bpe/rank_file.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "text/bpe/rank_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const std::string content(reinterpret_cast<const char*>(input), size);
  try {
    const std::vector<std::string> tokens = mt::parse_ranks(content, "ranks", 300);
    const mt::ByteBpe bpe(mt::rank_rules(tokens, 3));
    for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
      std::vector<std::int32_t> ids;
      const std::size_t end = tokens[rank].size();
      bpe.encode(tokens[rank], {&end, 1}, ids);
      if (ids != std::vector{static_cast<std::int32_t>(rank) + 3}) std::abort();
    }
  } catch (const mt::Error& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
  }
  return 0;
}
