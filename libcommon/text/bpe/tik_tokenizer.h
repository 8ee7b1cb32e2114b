// TikTokenizer: byte-pair encoding by ranks with Megatron's rules, ids equal to tiktoken's.
//
// A rank file says which byte strings are tokens; the rank of each is its position, from 0, and a
// token has at most kMaxTokenBytes.  All 256 single bytes are tokens.  Three formats, told apart by
// the first character that is no white space:
//   Megatron's JSON  [{"rank":0,"token_bytes":"AA==","token_str":"..."},...], the single bytes
//                    first, in their order
//   tiktoken's       one "BASE64 RANK" a line
//   Mistral's        tekken.json, an object: "vocab" is such a list as Megatron's; "config" has the
//                    pattern and the sizes, where the options leave them open
//
// Ids 0 to S - 1 are special tokens: those given, then <SPECIAL_k> with k the id.  They are never
// recognised in text.  Rank r has the id S + r; only the first vocab_size - S ranks are used.
//
// A piece of text that is a token is that token; else the adjacent pair whose bytes together have
// the lowest rank is merged, the leftmost first, until there is none.
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

class TikTokenizer : public Tokenizer {
 public:
  static constexpr std::string_view kType = "TikTokenizer";
  static constexpr std::size_t kMaxTokenBytes = 1024;
  static constexpr std::int64_t kDefaultVocabSize = 131072;

  // Throws Exit::bad_data for a malformed file or too few ranks, Exit::usage for special tokens
  // that do not fit (they must differ, have no white space, and <unk> <s> </s> be among them).
  explicit TikTokenizer(const TokenizerOptions& options);

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  void encode_utf8(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string decode(std::span<const std::int32_t> ids) const override {
    return tokens_.decode(ids);
  }
  std::unique_ptr<StreamDecoder> stream_decoder() const override {
    return tokens_.stream_decoder();
  }
  std::int32_t vocab_size() const override { return tokens_.size(); }
  std::int32_t eod() const override { return eod_; }  // of </s>
  std::int32_t bos() const override { return bos_; }  // of <s>
  bool is_special(std::int32_t id) const override { return id >= 0 && id < special_; }
  std::string_view type() const override { return kType; }
  const std::string& identity() const override { return identity_; }

 private:
  Splitter split_ = nullptr;
  TokenBytes tokens_;
  std::optional<ByteBpe> bpe_;  // there once the constructor is done
  std::int32_t eod_ = 0, bos_ = 0;
  std::int64_t special_ = 0;  // tokens before those of the ranks
  std::string identity_;
};

// The names that --tiktoken-pattern takes.
std::vector<std::string> tiktoken_patterns();

}  // namespace mt
