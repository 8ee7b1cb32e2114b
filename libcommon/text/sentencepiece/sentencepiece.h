// SentencePiece: encoding and decoding with a `.model` file
// (text/sentencepiece/sentencepiece_model.h) as Google's library does it, release 0.2.3: the same
// ids for any bytes.  Constant once made; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/piece_cache.h"
#include "text/sentencepiece/scored_bpe.h"
#include "text/sentencepiece/sentencepiece_model.h"
#include "text/sentencepiece/sentencepiece_normalizer.h"
#include "text/sentencepiece/unigram.h"
#include "text/string_map.h"

namespace mt {

class SentencePiece {
 public:
  static constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, a space in a piece

  SentencePiece(std::string_view content, const std::string& path);

  // Appends the ids of `text`; a run of unknown pieces is one id.
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const;

  // Decodes id by id; the text appears as soon as it is complete.
  class Decoder {
   public:
    explicit Decoder(const SentencePiece& model) : model_(model) {}
    void push(std::int32_t id, std::string& text);  // id in [0, size())
    void finish(std::string& text);                 // what remains; starts anew

   private:
    void push_raw(std::int32_t id, std::string& text);
    void take_bytes(bool all, std::string& text);

    const SentencePiece& model_;
    std::string bytes_;     // of byte pieces: a character that is not complete
    bool at_start_ = true;  // a space that comes now is the one put before the text
    bool empty_ = true;     // nothing has appeared yet
    std::string held_;      // all of the text, where there is a denormalizer
  };
  std::string decode(std::span<const std::int32_t> ids) const;

  std::int32_t size() const { return static_cast<std::int32_t>(model_.pieces.size()); }
  const std::string& piece(std::int32_t id) const { return model_.pieces[id].text; }
  std::int32_t bos() const { return model_.bos; }  // -1: the model has none
  std::int32_t eos() const { return model_.eos; }
  std::int32_t pad() const { return model_.pad; }

 private:
  // Where a normal text may be cut so that each part has the pieces it has in the whole.
  enum class Cut { nowhere, before_spaces, after_spaces };
  class Run;

  static constexpr float kRebaseBeyond = 100000;

  void make_encoder();
  void make_unigram(const std::vector<std::string>& texts);
  void make_bpe(const std::vector<std::string>& texts);
  void make_words(const std::vector<std::string>& texts);
  static Cut find_cut(const std::vector<std::string>& texts);

  SentencePieceModel model_;
  SentencePieceNormalizer normalizer_;
  std::optional<SentencePieceNormalizer> denormalizer_;
  std::optional<Unigram<float>> unigram_;  // one of the three
  std::optional<ScoredBpe> bpe_;
  std::optional<StringMap<std::int32_t>> words_;  // ids by texts
  Cut cut_ = Cut::nowhere;
  mutable PieceCachePool caches_;
};

}  // namespace mt
