// Hashes of content: XXH3, 128 bits, as 32 hexadecimal digits.  They find accidents, not attacks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/file.h"

struct XXH3_state_s;

namespace mt {

class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  void update(Bytes bytes);
  void update(std::string_view text) { update(as_bytes(text)); }
  // Digest: the hash of all bytes that were given so far.
  struct Digest {
    std::uint64_t high, low;
  };
  Digest digest() const;
  std::string hex() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

std::string hash_hex(Bytes bytes);
std::string hash_file(const std::string& path);  // by parts, as below
// The hash of a part of a large file, which leaves memory as soon as it is read.
std::string hash_once(const MappedFile& file, Bytes part);
void hash_once(const MappedFile& file, Bytes part, Hasher& hasher);  // after what it was given

}  // namespace mt
