// HfTokenizer: the tokenizer of a tokenizer.json, ids equal to Hugging Face's tokenizers 0.23.
//
// The file is one JSON object: added_tokens, which are found in a text first; normalizer,
// pre_tokenizer and model, which what is between them goes through (text/hf/hf_normalizer.h and so
// on); post_processor, which puts tokens around it, as Megatron's tokenize() wants them; decoder.
// Any of them may be null but the model.  What is not known is refused by its name.  Truncation and
// padding, which transformers sets anew for each text, are passed over.  The ids of all tokens are
// 0 to n - 1.
//
// Beyond the file it is what AutoTokenizer of transformers makes of its folder: tokens, roles and
// settings of the class (text/hf/hf_config.h, text/hf/hf_adapt.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/hf/hf_added_tokens.h"
#include "text/hf/hf_config.h"
#include "text/hf/hf_decoder.h"
#include "text/hf/hf_model.h"
#include "text/hf/hf_normalizer.h"
#include "text/hf/hf_pre_tokenizer.h"
#include "text/hf/hf_template.h"
#include "text/token_bytes.h"
#include "text/tokenizer.h"

namespace mt {

class HfDocument;
struct HfEnds;

class HfTokenizer : public Tokenizer {
 public:
  static constexpr std::string_view kType = "HuggingFaceTokenizer";

  static constexpr int kVersion = 4;  // of transformers, where not told otherwise

  // `path`: a tokenizer.json, or another file that text/hf/hf_from_files.h names, or the folder
  // that holds one.  `version`: of transformers, 4 or 5.
  explicit HfTokenizer(const std::string& path, int version = kVersion);
  // The tokenizer of such files, of those that files() finds.  `whole` becomes the tokenizer.json
  // that says by itself what they and their class say.
  explicit HfTokenizer(const std::vector<HfConfigFile>& files, int version = kVersion,
                       std::string* whole = nullptr);
  // A tokenizer made of the content of `file`, and of the files beside it.
  HfTokenizer(std::string_view content, const std::string& file,
              const std::vector<HfConfigFile>& config_files, int version = kVersion);

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override;
  void encode_utf8(std::string_view text, std::vector<std::int32_t>& ids) const override;
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::unique_ptr<StreamDecoder> stream_decoder() const override;
  std::int32_t vocab_size() const override { return tokens_.size(); }
  std::int32_t eod() const override { return special_.eos; }  // eos_token; -1: there is none
  std::int32_t bos() const override { return special_.bos; }
  SpecialTokens special_ids() const override { return special_; }
  bool continues_word(std::int32_t id) const override { return tokens_.of(id).starts_with("##"); }
  std::string_view type() const override { return kType; }
  const std::string& identity() const override { return identity_; }
  std::string_view class_name() const { return class_; }  // of transformers, without "Fast"
  // What whoever reads its files is to be told; empty: nothing.
  const std::string& note() const { return note_; }
  std::int32_t unknown() const { return unknown_; }  // unk_token; -1: there is none
  // Is the token found in a text before anything else is done with it?
  bool is_added(std::int32_t id) const { return added_.contains(id); }
  // Those of special_ids() and what its files call special.
  bool is_special(std::int32_t id) const override { return marks_.contains(id) || has_role(id); }

  // The files that such a tokenizer is read from; the first is the tokenizer.json, if there is one.
  static std::vector<HfConfigFile> files(const std::string& path);
  // The same by their names in a folder that is to hold the tokenizer alone: what is read of the
  // model's config.json stands in a file of its own.
  static std::vector<HfConfigFile> copies(const std::string& path, int version = kVersion);

 private:
  void make(std::string_view content, const std::string& file, HfConfig config, int version,
            std::string* whole);
  void read(const HfDocument& document, const HfVocabulary& vocabulary, bool serde_numbers);
  // All added tokens, in the order of their ids.  `normalizer`: through which those go that are
  // looked for in normalized text.
  std::vector<HfAddedToken> add_tokens(const HfDocument& document, const HfConfig& config,
                                       int version, const HfNormalizer& normalizer,
                                       HfVocabulary& vocabulary);
  void put_ends(const HfEnds& ends, const HfConfig& config, const std::string& file,
                const HfVocabulary& vocabulary);
  std::string identity_of(std::string_view content, const HfDocument& document) const;

  // The text; then what is between the tokens that are found there.
  void encode_raw(std::string_view text, std::vector<std::int32_t>& ids) const;
  void encode_between(std::string_view text, bool at_start, std::vector<std::int32_t>& ids) const;

  HfAddedTokens raw_tokens_, normalized_tokens_;  // looked for before and behind the normalizer
  HfNormalizer normalizer_;
  HfPreTokenizer pre_tokenizer_;
  std::optional<Splitter> splitter_;  // all that the pre-tokenizer does
  std::unique_ptr<HfModel> model_;
  HfDecoder decoder_;
  HfTemplate template_;
  SpecialTokens special_;
  std::int32_t unknown_ = -1;
  std::set<std::int32_t> added_, marks_;  // of these the special ones
  std::string_view class_;
  std::string note_;
  bool clean_up_ = false;
  std::string folder_tokens_;  // what tokens the folder adds or changes, for the identity
  TokenBytes tokens_;  // as the decoder takes them, or the bytes they are where it only does that
  std::string identity_;
};

// The note of a tokenizer that is one of these; empty: there is none.
std::string hf_note_of(const Tokenizer& tokenizer);

}  // namespace mt
