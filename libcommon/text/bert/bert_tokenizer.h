// BertWordPieceLowerCase and BertWordPieceCase: Google BERT's tokenizer with Megatron's rules.
//
// vocab.txt has one token a line, its id is the line's number; white space around it is taken away.
// [UNK], [CLS], [SEP], [PAD] and [MASK] are among them.  [BOS] and [EOS], where they are not, get
// the ids that follow, then come <extra_id_0> .. <extra_id_n-1>.  A document ends with [EOS].
//
// A text is cut into words: control characters go, ideographs are words, white space separates; the
// lower-case type then takes lower case, decomposes and drops accents, by each stretch between
// white space; punctuation characters are words.  WordPiece cuts the words; one of more than 200
// characters is unknown.  No token is recognised in a text: `[MASK]` is three words.  Unicode is
// that of Python 3.11 (text/bert/bert_tables.h).  Decoded, words are separated by spaces, and
// English punctuation is joined to the word before as Megatron does it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/bert/word_piece.h"
#include "text/bpe/piece_cache.h"
#include "text/string_map.h"
#include "text/tokenizer.h"

namespace mt {

class BertTokenizer : public Tokenizer {
 public:
  static constexpr std::string_view kLowerCaseType = "BertWordPieceLowerCase";
  static constexpr std::string_view kCaseType = "BertWordPieceCase";

  // `type`: one of the two.  Throws Exit::bad_data for a file that is not UTF-8, lacks one of the
  // tokens above or has a token twice, which would give ids that are not in order to what is added.
  BertTokenizer(std::string_view type, const std::string& vocab_path, std::int32_t extra_ids);

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::unique_ptr<StreamDecoder> stream_decoder() const override;
  std::int32_t vocab_size() const override { return static_cast<std::int32_t>(tokens_.size()); }
  std::int32_t eod() const override { return eod_; }
  std::string_view type() const override { return type_; }
  SpecialTokens special_ids() const override;
  bool continues_word(std::int32_t id) const override { return token(id).starts_with("##"); }
  const std::string& identity() const override { return identity_; }  // without the extra ids

  const std::string& token(std::int32_t id) const;  // throws for an id out of range

 private:
  class Run;

  std::int32_t add_token(const std::string& token);

  std::string_view type_;
  bool lower_case_;
  std::string identity_;
  std::vector<std::string> tokens_;  // by id
  StringMap<std::int32_t> ids_;
  std::int32_t eod_ = -1, extra_ids_ = 0;
  WordPiece word_piece_;
  mutable PieceCachePool caches_;
};

}  // namespace mt
