#include "text/hf/hf_model.h"

#include <algorithm>
#include <array>

#include "base/json_object.h"
#include "text/bpe/gpt2_files.h"
#include "text/hf/hf_bpe.h"
#include "text/hf/hf_unigram.h"
#include "text/hf/hf_whole_words.h"

namespace mt {

void HfModel::encode(std::string_view text, Splitter split, std::vector<std::int32_t>& ids) const {
  HfWords words{.text = std::string(text), .ends = {}};
  std::array<std::size_t, 256> ends;
  for (std::size_t at = 0; at < text.size(); at = words.ends.back())
    words.ends.insert(words.ends.end(), ends.begin(), ends.begin() + split(text, at, ends));
  encode(words, ids);
}

std::string_view hf_model_type(const JsonObject& model) {
  if (model.has("type")) return model.type();
  if (model.has("merges")) return "BPE";
  if (model.has("max_input_chars_per_word")) return "WordPiece";
  return model.member("vocab").is_array() ? "Unigram" : "WordLevel";
}

HfVocabulary read_hf_vocabulary(const JsonObject& model) {
  const std::string_view type = hf_model_type(model);
  if (type == "Unigram") return read_hf_unigram_vocabulary(model);
  if (type != "BPE" && type != "WordPiece" && type != "WordLevel")
    model.refuse("the model ", json_quoted(type), " is not known");
  HfVocabulary vocabulary;
  vocabulary.ids = parse_vocabulary(simdjson::minify(model.member("vocab")),
                                    concat(model.where(), ": vocab"), kMostHfHoles);
  vocabulary.size = static_cast<std::int32_t>(vocabulary.ids.size());
  std::int32_t last = -1;
  for (const auto& [token, id] : vocabulary.ids) last = std::max(last, id);
  vocabulary.tokens.resize(static_cast<std::size_t>(last) + 1);
  for (const auto& [token, id] : vocabulary.ids) vocabulary.tokens[id] = token;
  return vocabulary;
}

bool hf_model_takes_bytes(const JsonObject& model, const HfVocabulary& vocabulary) {
  return hf_model_type(model) == "BPE" && hf_bpe_takes_bytes(model, vocabulary);
}

std::unique_ptr<HfModel> make_hf_model(const JsonObject& model, const HfVocabulary& vocabulary,
                                       const HfModelReading& reading) {
  const std::string_view type = hf_model_type(model);
  if (type == "Unigram") return make_hf_unigram(model, vocabulary, reading.serde_numbers);
  if (type == "WordPiece") return make_hf_word_piece(model, vocabulary);
  if (type == "WordLevel") return make_hf_word_level(model, vocabulary);
  return make_hf_bpe(model, vocabulary, reading.bytes);
}

}  // namespace mt
