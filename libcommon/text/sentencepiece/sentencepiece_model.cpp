#include "text/sentencepiece/sentencepiece_model.h"

#include <cmath>

#include "base/error.h"
#include "base/json_object.h"
#include "base/lfs_pointer.h"
#include "text/bpe/rank_file.h"
#include "text/sentencepiece/protobuf_reader.h"
#include "text/sentencepiece/protobuf_writer.h"
#include "text/string_map.h"

namespace mt {
namespace {

using Model = SentencePieceModel;
using Type = Model::Type;

constexpr std::size_t kLongestPiece = 8000;  // bytes, exclusive; SentencePiece has this limit
constexpr std::string_view kNull{"\0", 1};
constexpr std::string_view kHexDigits = "0123456789ABCDEF";

Model::Piece read_piece(ProtobufReader in) {
  Model::Piece piece;
  while (in.next()) {
    if (in.number() == 1) piece.text = in.text();
    if (in.number() == 2) piece.score = in.f32();
    if (in.number() != 3) continue;
    if (in.int32() < 1 || in.int32() > 6)
      in.bad("type ", in.int32(), " of a piece, expected 1 to 6");
    piece.type = static_cast<Type>(in.int32());
  }
  return piece;
}

// Names of special pieces as the trainer keeps them.
struct SpecialNames {
  std::string bos = "<s>", eos = "</s>", pad = "<pad>";
};

void read_trainer(ProtobufReader in, Model& model, SpecialNames& names) {
  const auto set_name = [&](std::string& name, const char* fallback) {
    name = in.text().empty() ? fallback : in.text();
  };
  while (in.next()) switch (in.number()) {
      case 3:
        if (in.int32() < 1 || in.int32() > 4)
          in.bad("model type ", in.int32(),
                 ", expected 1 (unigram), 2 (BPE), 3 (words) or 4 (characters)");
        model.algorithm = static_cast<Model::Algorithm>(in.int32());
        break;
      case 24:
        model.whitespace_as_suffix = in.boolean();
        break;
      case 35:
        model.byte_fallback = in.boolean();
        break;
      case 44:
        model.unk_surface = in.text();
        break;
      case 46:
        set_name(names.bos, "<s>");
        break;
      case 47:
        set_name(names.eos, "</s>");
        break;
      case 48:
        set_name(names.pad, "<pad>");
        break;
    }
}

void read_normalizer(ProtobufReader in, Model::Normalizer& normalizer) {
  while (in.next()) {
    if (in.number() == 2) normalizer.charsmap = in.bytes();
    if (in.number() == 3) normalizer.add_dummy_prefix = in.boolean();
    if (in.number() == 4) normalizer.remove_extra_whitespaces = in.boolean();
    if (in.number() == 5) normalizer.escape_whitespaces = in.boolean();
  }
}

ProtobufWriter written(const Model::Normalizer& normalizer) {
  ProtobufWriter fields;
  fields.bytes(2, normalizer.charsmap).integer(3, normalizer.add_dummy_prefix);
  fields.integer(4, normalizer.remove_extra_whitespaces);
  return fields.integer(5, normalizer.escape_whitespaces);
}

// Checks the pieces, as SentencePiece does, and finds the special ones.
class PieceTable {
 public:
  PieceTable(Model& model, const std::string& path) : model_(model), path_(path) {}

  void index(const SpecialNames& names) {
    if (model_.pieces.size() > 0x7FFFFFFF) bad("more than 2^31 pieces");
    model_.byte_ids.fill(-1);
    for (std::size_t id = 0; id < model_.pieces.size(); ++id)
      add(static_cast<std::int32_t>(id), model_.pieces[id]);
    if (!model_.byte_fallback && model_.unk < 0) bad("no piece of type 2, unknown");
    for (int byte = 0; byte < 256; ++byte)
      if (model_.byte_fallback && model_.byte_ids[byte] < 0)
        bad("byte_fallback, but no piece for byte ", byte);
    model_.bos = control(names.bos);
    model_.eos = control(names.eos);
    model_.pad = control(names.pad);
  }

 private:
  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    fail(Exit::bad_data, path_, ": ", parts...);
  }

  void add(std::int32_t id, Model::Piece& piece) {
    if (model_.byte_fallback && piece.text == kNull) piece.type = Type::unused;
    if (piece.text.empty()) bad("piece ", id, " is empty");
    if (piece.text.size() >= kLongestPiece)
      bad("piece ", id, " has ", piece.text.size(), " bytes, expected less than ", kLongestPiece);
    const bool null = piece.text == kNull && piece.type == Type::unused;
    if (!null && piece.text.find('\0') != std::string::npos) bad("piece ", id, " holds a NUL");
    if (!ids_.emplace(piece.text, id).second)
      bad("piece ", id, ", ", json_quoted(piece.text), ", is there twice");
    if (model_.algorithm == Model::Algorithm::unigram && !std::isfinite(piece.score))
      bad("piece ", id, ", ", json_quoted(piece.text), ": its score is not finite");
    if (piece.type == Type::unknown) {
      if (model_.unk >= 0) bad("pieces ", model_.unk, " and ", id, " both are of type 2, unknown");
      model_.unk = id;
    }
    if (piece.type != Type::byte) return;
    const std::optional<unsigned char> byte = byte_of_piece(piece.text);
    if (!model_.byte_fallback) bad("piece ", id, " is of type 6, byte, without byte_fallback");
    if (!byte)
      bad("piece ", id, ", ", json_quoted(piece.text), ", is of type 6, expected <0x00> to <0xFF>");
    model_.byte_ids[*byte] = id;
  }

  std::int32_t control(const std::string& name) const {
    const auto found = ids_.find(name);
    if (found == ids_.end() || model_.pieces[found->second].type != Type::control) return -1;
    return found->second;
  }

  Model& model_;
  const std::string& path_;
  StringMap<std::int32_t> ids_;
};

}  // namespace

std::optional<unsigned char> byte_of_piece(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const std::size_t high = kHexDigits.find(text[3]), low = kHexDigits.find(text[4]);
  if (high == kHexDigits.npos || low == kHexDigits.npos) return std::nullopt;
  return static_cast<unsigned char>(16 * high + low);
}

std::string piece_of_byte(unsigned char byte) {
  return {'<', '0', 'x', kHexDigits[byte / 16], kHexDigits[byte % 16], '>'};
}

SentencePieceModel parse_sentencepiece_model(std::string_view content, const std::string& path) {
  refuse_lfs_pointer(content, path);
  if (is_rank_file(content))
    fail(Exit::bad_data, path, ": these are ranks as tiktoken writes them (Llama 3's ",
         "tokenizer.model), for --tokenizer-type TikTokenizer or HuggingFaceTokenizer, and no ",
         "SentencePiece model");
  if (content.starts_with('{'))
    fail(Exit::bad_data, path, ": is JSON, expected a SentencePiece model");
  Model model;
  SpecialNames names;
  bool has_trainer = false, has_normalizer = false;
  ProtobufReader in(content, path);
  while (in.next()) {
    if (in.number() == 1) model.pieces.push_back(read_piece(in.message()));
    if (in.number() == 2) read_trainer(in.message(), model, names);
    if (in.number() == 3) read_normalizer(in.message(), model.normalizer);
    if (in.number() == 5) read_normalizer(in.message(), model.denormalizer);
    has_trainer |= in.number() == 2;
    has_normalizer |= in.number() == 3;
  }
  if (model.pieces.empty()) fail(Exit::bad_data, path, ": no pieces, not a SentencePiece model");
  if (!has_trainer || !has_normalizer)
    fail(Exit::bad_data, path, ": no ", has_trainer ? "normalizer" : "trainer",
         "_spec: cut, or not a SentencePiece model");
  PieceTable(model, path).index(names);
  return model;
}

std::string sentencepiece_model_content(const Model& model) {
  ProtobufWriter content, trainer;
  for (const Model::Piece& piece : model.pieces) {
    ProtobufWriter fields;
    fields.bytes(1, piece.text).f32(2, piece.score);
    content.message(1, fields.integer(3, static_cast<std::uint64_t>(piece.type)));
  }
  trainer.integer(3, static_cast<std::uint64_t>(model.algorithm));
  trainer.integer(24, model.whitespace_as_suffix).integer(35, model.byte_fallback);
  trainer.bytes(44, model.unk_surface);
  if (model.bos >= 0) trainer.bytes(46, model.pieces[model.bos].text);
  if (model.eos >= 0) trainer.bytes(47, model.pieces[model.eos].text);
  if (model.pad >= 0) trainer.bytes(48, model.pieces[model.pad].text);
  content.message(2, trainer).message(3, written(model.normalizer));
  content.message(5, written(model.denormalizer));
  return content.content();
}

}  // namespace mt
