#include "base/input/read_input.h"

#include "base/input/byte_order_mark.h"
#include "base/input/byte_source.h"

namespace mt {

std::string read_input(const std::string& path, std::function<void()> while_waiting) {
  ByteSource source(path, std::move(while_waiting));
  std::string content;
  for (std::size_t size = 0, count = 0;; size += count) {
    content.resize(size + (std::size_t{1} << 16));
    count = source.read(std::span(content).subspan(size));
    if (count == 0) {
      content.resize(size);
      content.erase(0, byte_order_mark(content, source.name()));
      return content;
    }
  }
}

}  // namespace mt
