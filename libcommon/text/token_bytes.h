// TokenBytes: the bytes that each id stands for, of tokenizers whose text is just the bytes of its
// tokens put together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace mt {

class TokenBytes {
 public:
  TokenBytes() = default;
  explicit TokenBytes(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {}

  std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }
  const std::string& of(std::int32_t id) const;  // throws Exit::bad_data for an id out of range
  std::string decode(std::span<const std::int32_t> ids) const;
  std::unique_ptr<StreamDecoder> stream_decoder() const;  // must not outlive this

 private:
  std::vector<std::string> tokens_;
};

}  // namespace mt
