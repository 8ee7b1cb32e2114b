// TokenSequences: numbered sequences of tokens, which is all that a GPT dataset knows of its data:
// a token file (indexed_dataset.h) or made-up text (mock_tokens.h).  Implementations are
// thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/files/item_range.h"

namespace mt {

class TokenSequences {
 public:
  virtual ~TokenSequences() = default;
  virtual const std::string& name() const = 0;  // for errors: the token file's prefix
  virtual std::int64_t sequences() const = 0;
  virtual std::int64_t length(std::int64_t sequence) const = 0;  // in tokens
  virtual std::int64_t tokens(ItemRange sequences) const = 0;    // of a run of sequences
  // Tokens [offset, offset + out.size()) of one sequence; the caller stays inside length().
  virtual void read(std::int64_t sequence, std::int64_t offset,
                    std::span<std::int64_t> out) const = 0;
  virtual std::int64_t document_of(std::int64_t sequence) const = 0;
  // A hash of all lengths: equal hashes are cut into the same samples.  Reads the whole index.
  virtual std::string lengths_hash() const = 0;

 protected:
  TokenSequences() = default;
  TokenSequences(const TokenSequences&) = default;
  TokenSequences& operator=(const TokenSequences&) = default;
};

}  // namespace mt
