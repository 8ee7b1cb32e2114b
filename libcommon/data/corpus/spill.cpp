#include "data/corpus/spill.h"

#include <algorithm>

namespace mt {

constexpr std::size_t kBufferBytes = 64 << 10;  // a multiple of an element

void Spill::write(Bytes bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= kBufferBytes) flush();
}

void Spill::flush() {
  file_.write(Bytes(buffer_));
  buffer_.clear();
}

void Spill::cut(std::uint64_t bytes) {
  buffer_.clear();
  file_.cut(bytes);
}

void Spill::discard() {
  buffer_ = {};
  file_.discard();
}

void Spill::replay(const std::function<void(Bytes)>& body) {
  flush();
  File in = File::open(file_.temporary_path());
  const std::uint64_t size = in.size();
  std::vector<std::byte> piece(kBufferBytes);
  for (std::uint64_t at = 0; at < size; at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(kBufferBytes, size - at));
    in.read_at(at, piece);
    body(piece);
  }
}

}  // namespace mt
