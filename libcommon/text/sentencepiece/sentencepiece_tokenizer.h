// Megatron's three tokenizers over a SentencePiece model (text/sentencepiece/sentencepiece.h):
//   GPTSentencePieceTokenizer  the model's ids; a document ends with its eos, if it has one
//   Llama2Tokenizer            the same, and each text begins with the model's bos
//   SentencePieceTokenizer     knows further tokens: <CLS> <SEP> <EOD> <MASK>, the model's pad, bos
//     and eos (<PAD>, <BOS>, <EOS> where it has none) and <extra_id_0> .. <extra_id_n-1>. Those
//     that are no piece get the ids that follow.  In a text the first of them that occurs is cut
//     out and becomes its id, again and again (of two that begin at one place the one that stands
//     earlier in this list), and what lies between is encoded by itself.  A document ends with
//     <EOD>.  Decoded, such a token has a space on both sides.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/sentencepiece/byte_trie.h"
#include "text/sentencepiece/sentencepiece.h"
#include "text/tokenizer.h"

namespace mt {

class SentencePieceModelTokenizer : public Tokenizer {
 public:
  static constexpr std::string_view kGptType = "GPTSentencePieceTokenizer";
  static constexpr std::string_view kLlama2Type = "Llama2Tokenizer";

  // `type`: one of the two.  Throws Exit::bad_data for a malformed model, or one without a bos
  // where there must be one.
  SentencePieceModelTokenizer(std::string_view type, const std::string& model_path);
  // The tokenizer of a model's content, which errors call `where`.
  SentencePieceModelTokenizer(std::string_view type, std::string_view content,
                              const std::string& where);

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::unique_ptr<StreamDecoder> stream_decoder() const override;
  std::int32_t vocab_size() const override { return model_->size(); }
  std::int32_t eod() const override { return model_->eos(); }
  std::int32_t bos() const override { return model_->bos(); }
  std::string_view type() const override { return type_; }
  const std::string& identity() const override { return identity_; }

 private:
  std::string_view type_;
  std::string identity_;
  std::unique_ptr<const SentencePiece> model_;
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  static constexpr std::string_view kType = "SentencePieceTokenizer";

  SentencePieceTokenizer(const std::string& model_path, std::int32_t extra_ids);

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::unique_ptr<StreamDecoder> stream_decoder() const override;
  std::int32_t vocab_size() const override { return vocab_size_; }
  std::int32_t eod() const override { return eod_; }
  std::int32_t bos() const override { return special_.bos; }
  std::string_view type() const override { return kType; }
  SpecialTokens special_ids() const override { return special_; }
  bool continues_word(std::int32_t id) const override;
  // Without the extra ids: data of a text that does not spell them out is the same.
  const std::string& identity() const override { return identity_; }

 private:
  class Stream;

  void add_special(const std::string& text, std::int32_t id);
  std::size_t special_at(std::string_view text) const;  // an index of specials_, or its size

  std::string identity_;
  std::unique_ptr<const SentencePiece> model_;
  std::vector<std::pair<std::string, std::int32_t>> specials_;  // text and id
  std::unordered_map<std::int32_t, std::size_t> special_ids_;   // to an index of specials_
  ByteTrie special_texts_;                                      // the same
  std::array<bool, 256> begins_special_{};                      // by first byte
  std::int32_t vocab_size_ = 0, eod_ = -1;
  SpecialTokens special_;
};

}  // namespace mt
