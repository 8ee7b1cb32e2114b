// A text from one rank to all.
#pragma once

#include <string>

#include "comm/group.h"

namespace mt {

inline std::string broadcast_text(Group& ranks, std::string text, int root) {
  auto size = static_cast<std::int64_t>(text.size());
  ranks.broadcast({&size, DType::i64, {1}}, root).wait();
  text.resize(static_cast<std::size_t>(size));
  if (size > 0) ranks.broadcast({text.data(), DType::u8, {size}}, root).wait();
  return text;
}

}  // namespace mt
