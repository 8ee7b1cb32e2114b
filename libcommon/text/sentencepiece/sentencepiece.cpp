#include "text/sentencepiece/sentencepiece.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "text/unicode/utf8_length.h"

namespace mt {

using Type = SentencePieceModel::Type;
using Algorithm = SentencePieceModel::Algorithm;

static constexpr std::string_view kSpaceMark = SentencePiece::kSpaceMark;
static constexpr float kUnknownPenalty = 10;  // below the lowest score of a normal piece

static SentencePieceNormalizer make_normalizer(const SentencePieceModel& model,
                                               const std::string& path) {
  SentencePieceNormalizer::Options options{
      .add_dummy_prefix = model.normalizer.add_dummy_prefix,
      .remove_extra_whitespaces = model.normalizer.remove_extra_whitespaces,
      .escape_whitespaces = model.normalizer.escape_whitespaces,
      .whitespace_as_suffix = model.whitespace_as_suffix};
  for (const SentencePieceModel::Piece& piece : model.pieces)
    if (piece.type == Type::user_defined) options.untouched.push_back(piece.text);
  return {CharsMap(model.normalizer.charsmap, path + ": "), options};
}

SentencePiece::SentencePiece(std::string_view content, const std::string& path)
    : model_(parse_sentencepiece_model(content, path)), normalizer_(make_normalizer(model_, path)) {
  if (const auto& spec = model_.denormalizer; !spec.charsmap.empty())
    denormalizer_.emplace(
        CharsMap(spec.charsmap, path + ": denormalizer: "),
        SentencePieceNormalizer::Options{.add_dummy_prefix = spec.add_dummy_prefix,
                                         .remove_extra_whitespaces = spec.remove_extra_whitespaces,
                                         .escape_whitespaces = spec.escape_whitespaces});
  make_encoder();
}

// `text` with U+2581 as the spaces that they stand for.
static void append_spaced(std::string_view text, std::string& out) {
  for (std::size_t mark; (mark = text.find(kSpaceMark)) != text.npos;) {
    out.append(text.substr(0, mark)) += ' ';
    text.remove_prefix(mark + kSpaceMark.size());
  }
  out += text;
}

// --- Encoding: sentencepiece_encode.cpp uses what is made here. ---

void SentencePiece::make_encoder() {
  // Pieces as they are found in normal text; empty: not at all.
  std::vector<std::string> texts;
  for (const SentencePieceModel::Piece& piece : model_.pieces) {
    const bool found = piece.type == Type::normal || piece.type == Type::user_defined ||
                       (piece.type == Type::unused && model_.algorithm == Algorithm::bpe);
    const bool escaped = model_.normalizer.escape_whitespaces;
    std::string& text = texts.emplace_back();
    if (!found || (escaped && piece.text.find(' ') != std::string::npos)) continue;
    if (escaped)
      append_spaced(piece.text, text);
    else
      text = piece.text;
  }
  cut_ = find_cut(texts);
  if (model_.algorithm == Algorithm::unigram)
    make_unigram(texts);
  else if (model_.algorithm == Algorithm::words)
    make_words(texts);
  else
    make_bpe(texts);
}

void SentencePiece::make_unigram(const std::vector<std::string>& texts) {
  float lowest = std::numeric_limits<float>::max();
  std::vector<Unigram<float>::Piece> pieces;
  for (const SentencePieceModel::Piece& piece : model_.pieces) {
    if (piece.type == Type::normal) lowest = std::min(lowest, piece.score);
    // A user-defined piece counts for more than what it could be cut into.
    const bool whole = piece.type == Type::user_defined;
    const auto bonus = static_cast<float>(0.1 * (static_cast<int>(piece.text.size()) - 1));
    pieces.push_back({texts[pieces.size()], whole ? bonus : piece.score});
  }
  unigram_.emplace(pieces, Unigram<float>::Options{.unknown_score = lowest - kUnknownPenalty,
                                                   .rebase_beyond = kRebaseBeyond});
}

void SentencePiece::make_bpe(const std::vector<std::string>& texts) {
  std::vector<ScoredBpe::Piece> pieces;
  for (const SentencePieceModel::Piece& piece : model_.pieces)
    pieces.push_back({.text = texts[pieces.size()],
                      .score = piece.score,
                      .whole = piece.type == Type::user_defined,
                      .unused = piece.type == Type::unused});
  bpe_.emplace(pieces);
  if (bpe_->has_unused()) cut_ = Cut::nowhere;
}

void SentencePiece::make_words(const std::vector<std::string>& texts) {
  words_.emplace();
  for (std::size_t id = 0; id < texts.size(); ++id)
    if (!texts[id].empty()) words_->emplace(texts[id], static_cast<std::int32_t>(id));
  cut_ = model_.normalizer.escape_whitespaces ? Cut::before_spaces : Cut::nowhere;
}

SentencePiece::Cut SentencePiece::find_cut(const std::vector<std::string>& texts) {
  bool space_after = false, space_before = false;  // some other character, in some piece
  for (const std::string& text : texts)
    for (std::size_t i = 1; i < text.size(); ++i) {
      space_after |= text[i - 1] != ' ' && text[i] == ' ';
      space_before |= text[i - 1] == ' ' && text[i] != ' ';
    }
  return !space_after ? Cut::before_spaces : !space_before ? Cut::after_spaces : Cut::nowhere;
}

// --- Decoding. ---

// A byte piece waits until its character is complete; a byte that is part of none is U+FFFD.
void SentencePiece::Decoder::take_bytes(bool all, std::string& text) {
  std::size_t at = 0;
  while (at < bytes_.size() && (all || at + utf8_length(bytes_[at]) <= bytes_.size())) {
    const std::size_t length = valid_utf8_length(bytes_, at);
    text += length == 0 ? "\xEF\xBF\xBD" : bytes_.substr(at, length);
    at += std::max<std::size_t>(length, 1);
    empty_ = false;
  }
  bytes_.erase(0, at);
}

void SentencePiece::Decoder::push_raw(std::int32_t id, std::string& text) {
  const SentencePieceModel& model = model_.model_;
  const SentencePieceModel::Piece& piece = model.pieces[id];
  if (piece.type == Type::byte) {
    bytes_ += static_cast<char>(byte_of_piece(piece.text).value());
    return take_bytes(false, text);
  }
  take_bytes(true, text);
  if (!empty_) at_start_ = false;
  if (piece.type == Type::control) return;
  std::string_view rest = piece.text;
  const SentencePieceModel::Normalizer& normalizer = model.normalizer;
  const bool strip = normalizer.add_dummy_prefix || normalizer.remove_extra_whitespaces;
  const bool stripped = at_start_ && strip && rest.starts_with(kSpaceMark);
  if (stripped) rest.remove_prefix(kSpaceMark.size());
  const std::size_t before = text.size();
  if (piece.type == Type::unknown)
    text += model.unk_surface;
  else
    append_spaced(rest, text);
  if (text.size() > before) empty_ = false;
  // The space before the text is one; extra ones are all taken away.
  if (!empty_ || (stripped && !normalizer.remove_extra_whitespaces)) at_start_ = false;
}

void SentencePiece::Decoder::push(std::int32_t id, std::string& text) {
  push_raw(id, model_.denormalizer_ ? held_ : text);
}

void SentencePiece::Decoder::finish(std::string& text) {
  take_bytes(true, model_.denormalizer_ ? held_ : text);
  if (model_.denormalizer_) {
    std::string normal;
    model_.denormalizer_->normalize(held_, normal);
    for (const char c : normal)
      if (c == ' ' && model_.model_.denormalizer.escape_whitespaces)
        text += kSpaceMark;
      else
        text += c;
  }
  bytes_.clear();
  held_.clear();
  at_start_ = empty_ = true;
}

std::string SentencePiece::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  Decoder decoder(*this);
  for (const std::int32_t id : ids) decoder.push(id, text);
  decoder.finish(text);
  return text;
}

}  // namespace mt
