#include "text/hf/hf_whole_words.h"

#include "base/json_object.h"
#include "text/bert/word_piece.h"
#include "text/hf/hf_word_model.h"

namespace mt {
namespace {

class WordPieceModel : public HfWordModel {
 public:
  explicit WordPieceModel(WordPiece word_piece) : word_piece_(std::move(word_piece)) {}

 private:
  void cut(std::string_view word, Scratch&, std::vector<std::int32_t>& ids) const override {
    word_piece_.encode(word, ids);
  }
  WordPiece word_piece_;
};

class WordLevelModel : public HfWordModel {
 public:
  WordLevelModel(StringMap<std::int32_t> ids, std::int32_t unknown)
      : ids_(std::move(ids)), unknown_(unknown) {}

 private:
  void cut(std::string_view word, Scratch&, std::vector<std::int32_t>& ids) const override {
    const auto token = ids_.find(word);
    ids.push_back(token == ids_.end() ? unknown_ : token->second);
  }
  StringMap<std::int32_t> ids_;
  std::int32_t unknown_;
};

std::int32_t unknown_of(const JsonObject& model, const HfVocabulary& vocabulary) {
  const auto token = vocabulary.ids.find(model.text("unk_token"));
  if (token == vocabulary.ids.end())
    model.refuse("\"unk_token\": ", json_quoted(model.text("unk_token")),
                 " is no token of the vocabulary");
  return token->second;
}

}  // namespace

std::unique_ptr<HfModel> make_hf_word_piece(const JsonObject& model,
                                            const HfVocabulary& vocabulary) {
  const std::string_view prefix = model.text("continuing_subword_prefix");
  if (prefix.empty()) model.refuse("\"continuing_subword_prefix\": empty, expected \"##\", say");
  const std::vector<std::pair<std::string_view, std::int32_t>> tokens(vocabulary.ids.begin(),
                                                                      vocabulary.ids.end());
  return std::make_unique<WordPieceModel>(WordPiece(
      tokens, {.unknown = unknown_of(model, vocabulary),
               .prefix = prefix,
               .longest_word =
                   static_cast<std::size_t>(model.number("max_input_chars_per_word", 1 << 30))}));
}

std::unique_ptr<HfModel> make_hf_word_level(const JsonObject& model,
                                            const HfVocabulary& vocabulary) {
  return std::make_unique<WordLevelModel>(vocabulary.ids, unknown_of(model, vocabulary));
}

}  // namespace mt
