// Hashes of content: XXH3, 128 bits, as 32 hexadecimal digits.  They find accidents, not attacks.
#pragma once

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
  std::string hex() const;  // of all that was given so far

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

std::string hash_hex(Bytes bytes);
std::string hash_file(const std::string& path);

}  // namespace mt
