#include "base/hash.h"

#include <xxh_x86dispatch.h>  // XXH3 in the widest instructions that there are

#include <algorithm>
#include <new>

namespace mt {

void Hasher::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Hasher::Hasher() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

void Hasher::update(Bytes bytes) { XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()); }

Hasher::Digest Hasher::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return {hash.high64, hash.low64};
}

std::string Hasher::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
  std::string text;
  for (const unsigned char byte : canonical.digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string hash_hex(Bytes bytes) {
  Hasher hasher;
  hasher.update(bytes);
  return hasher.hex();
}

void hash_once(const MappedFile& file, Bytes part, Hasher& hasher) {
  constexpr std::size_t kBlock = 16 << 20;
  while (!part.empty()) {
    const Bytes block = part.first(std::min(kBlock, part.size()));
    hasher.update(block);
    file.forget(block);
    part = part.subspan(block.size());
  }
}

std::string hash_once(const MappedFile& file, Bytes part) {
  Hasher hasher;
  hash_once(file, part, hasher);
  return hasher.hex();
}

std::string hash_file(const std::string& path) {
  const MappedFile file(path);
  return hash_once(file, file.bytes());
}

}  // namespace mt
