#include "text/hf/hf_unigram.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/json_object.h"
#include "text/hf/hf_word_model.h"

namespace mt {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score of all

// They are listed as [["PIECE", SCORE], ...].
std::vector<Unigram<double>::Piece> read_pieces(const JsonObject& model) {
  simdjson::dom::array list;
  if (model.member("vocab").get(list)) model.refuse("\"vocab\": expected an array");
  std::vector<Unigram<double>::Piece> pieces;
  for (const simdjson::dom::element entry : list) {
    simdjson::dom::array pair;
    std::string_view text;
    double score = 0;
    if (entry.get(pair) || pair.size() != 2 || pair.at(0).get(text) || pair.at(1).get(score))
      model.refuse("\"vocab\": ", simdjson::minify(entry), ", expected a piece and its score");
    pieces.push_back({std::string(text), score});
  }
  return pieces;
}

// What serde_json reads where a file says a number in the fewest digits that tell it from others,
// as Python and Rust write it.
double serde_number(double number) {
  char text[32];
  const char* const end =
      std::to_chars(text, std::end(text), std::abs(number), std::chars_format::scientific).ptr;
  const char* const e = std::find<const char*>(text, end, 'e');
  std::uint64_t digits = 0;
  for (const char* at = text; at != e; ++at)
    if (*at != '.') digits = 10 * digits + static_cast<std::uint64_t>(*at - '0');
  int exponent = 0;
  std::from_chars(e + (e[1] == '+' ? 2 : 1), end, exponent);
  exponent -= static_cast<int>(std::max<std::ptrdiff_t>(e - text, 2) - 2);  // behind the point
  constexpr int kGreatest = 308;
  if (std::abs(exponent) > kGreatest) return number;  // which serde_json takes in steps
  char power_text[8] = "1e";
  std::to_chars(power_text + 2, std::end(power_text), std::abs(exponent));
  double power = 1;
  std::from_chars(power_text, std::end(power_text), power);
  const auto whole = static_cast<double>(digits);
  return std::copysign(exponent < 0 ? whole / power : whole * power, number);
}

class UnigramModel : public HfWordModel {
 public:
  UnigramModel(const std::vector<Unigram<double>::Piece>& pieces, double lowest,
               std::int32_t unknown, bool byte_fallback, const HfVocabulary& vocabulary)
      : unigram_(pieces, {.unknown_score = lowest - kUnknownPenalty}),
        unknown_(unknown),
        ids_(vocabulary.ids) {
    bytes_.assign(256, -1);
    if (byte_fallback) bytes_ = hf_byte_tokens(vocabulary);
  }

 private:
  void cut(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const override {
    double sum = 0;
    unigram_.encode(word, sum, scratch.segments, scratch.unigram);
    std::size_t begin = 0, unknown_begin = 0;  // the run of unknown pieces before `begin`
    for (const auto& [id, end] : scratch.segments) {
      if (id != kUnknownPiece && id != unknown_) {
        put_unknown(word.substr(unknown_begin, begin - unknown_begin), ids);
        ids.push_back(id);
        unknown_begin = end;
      }
      begin = end;
    }
    put_unknown(word.substr(unknown_begin), ids);
  }

  void put_unknown(std::string_view text, std::vector<std::int32_t>& ids) const {
    if (text.empty()) return;
    const auto id_of = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
    if (const auto piece = ids_.find(text); piece != ids_.end())
      ids.push_back(piece->second);
    else if (std::ranges::any_of(text, [&](char byte) { return id_of(byte) < 0; }))
      ids.push_back(unknown_);
    else
      std::ranges::transform(text, std::back_inserter(ids), id_of);
  }

  Unigram<double> unigram_;
  std::int32_t unknown_;
  StringMap<std::int32_t> ids_;
  std::vector<std::int32_t> bytes_;  // -1: the byte has no token
};

}  // namespace

HfVocabulary read_hf_unigram_vocabulary(const JsonObject& model) {
  HfVocabulary vocabulary;
  for (auto& [text, score] : read_pieces(model)) {
    // Where a piece is given twice, the later id counts.
    vocabulary.ids[text] = static_cast<std::int32_t>(vocabulary.tokens.size());
    vocabulary.tokens.push_back(std::move(text));
  }
  vocabulary.size = static_cast<std::int32_t>(vocabulary.tokens.size());
  return vocabulary;
}

std::unique_ptr<HfModel> make_hf_unigram(const JsonObject& model, const HfVocabulary& vocabulary,
                                         bool serde_numbers) {
  auto pieces = read_pieces(model);
  if (serde_numbers)
    for (auto& piece : pieces) piece.score = serde_number(piece.score);
  double lowest = std::numeric_limits<double>::infinity();
  for (const auto& piece : pieces) lowest = std::min(lowest, piece.score);
  if (pieces.empty()) model.refuse("\"vocab\": no pieces");
  const auto unknown = model.number("unk_id", static_cast<std::int64_t>(pieces.size()) - 1);
  return std::make_unique<UnigramModel>(pieces, lowest, static_cast<std::int32_t>(unknown),
                                        model.flag_or("byte_fallback", false), vocabulary);
}

}  // namespace mt
