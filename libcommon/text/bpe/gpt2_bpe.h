// Gpt2Bpe: GPT-2's byte-level BPE with Megatron's rules (Radford et al. 2019, 2.2).
//
//   vocab.json  one object, token -> id. Tokens are written in byte characters
//               (byte_map.h), the ids are 0 to n - 1, and <|endoftext|> is one of the tokens.
//   merges.txt  a line to skip, then one merge a line: two tokens with white space between them;
//               the rank is the line's position. Of a pair given twice the last rank counts. What
//               follows the last line end is dropped, so a file without one at its end loses its
//               last merge.
//
// The text `<|endoftext|>` is ordinary text. A byte that is no token gets the id 0; every other
// part and result of a merge must be a token. A token with a character that stands for no byte (a
// special token) is never encoded and decodes to its own text. Loading throws Exit::bad_data for
// malformed files, encode() only for a single word of 4 GiB or more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/byte_bpe.h"
#include "text/token_bytes.h"
#include "text/tokenizer.h"

namespace mt {

class Gpt2Bpe : public Tokenizer {
 public:
  static constexpr std::string_view kType = "GPT2BPETokenizer";
  static constexpr std::string_view kEndOfText = "<|endoftext|>";

  Gpt2Bpe(const std::string& vocab_path, const std::string& merges_path);

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  void encode_utf8(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string decode(std::span<const std::int32_t> ids) const override {
    return tokens_.decode(ids);
  }
  std::unique_ptr<StreamDecoder> stream_decoder() const override {
    return tokens_.stream_decoder();
  }
  std::int32_t vocab_size() const override { return tokens_.size(); }
  std::int32_t eod() const override { return eod_; }
  std::string_view type() const override { return kType; }
  const std::string& identity() const override { return identity_; }

 private:
  TokenBytes tokens_;
  std::optional<ByteBpe> bpe_;  // there once the constructor is done
  std::int32_t eod_ = 0;
  std::string identity_;
};

}  // namespace mt
