#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>

#include "text/bpe/char_masks.h"
#include "text/id_buffer.h"
#include "text/sentencepiece/sentencepiece.h"

namespace mt {

// One text being encoded.
class SentencePiece::Run {
 public:
  Run(const SentencePiece& model, PieceCache& cache, std::vector<std::int32_t>& ids)
      : model_(model), cache_(cache), ids_(ids) {}

  // Some parts at a time, so that their cache entries are asked for before the first is looked at.
  void encode(std::string_view text) {
    std::array<std::size_t, 2 * CharMasks::kBytes> ends;
    std::array<PieceCache::Key, ends.size()> keys;
    std::array<PieceCache::Entry*, ends.size()> places;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t count = part_ends(text, at, ends);
      std::size_t begin = at;
      for (std::size_t i = 0; i < count; begin = ends[i++]) {
        if (ends[i] - begin > PieceCache::kMaxBytes) continue;
        keys[i] = PieceCache::key(text, begin, ends[i] - begin);
        places[i] = &cache_.first(keys[i]);
      }
      for (std::size_t i = 0; i < count; at = ends[i++]) {
        const std::string_view part = text.substr(at, ends[i] - at);
        if (part.size() <= PieceCache::kMaxBytes) {
          encode_short(part, keys[i], cache_.entry(keys[i], *places[i]));
        } else {
          encode_long(part);
        }
      }
    }
    ids_.flush();
  }

 private:
  // The ends of the next parts, as many as are found without looking far; at least one.
  std::size_t part_ends(std::string_view text, std::size_t at, std::span<std::size_t> ends) const {
    std::size_t count = 0;
    while (model_.cut_ != Cut::nowhere && at < text.size() &&
           ends.size() - count >= CharMasks::kBytes) {
      const std::uint64_t blank = CharMasks(text.substr(at)).blank;
      // A part begins at the first blank of a run, or behind the last one.
      std::uint64_t begins =
          model_.cut_ == Cut::before_spaces ? blank & ~(blank << 1) : ~blank & blank << 1;
      begins &= ~std::uint64_t{1};  // the part at hand
      if (begins == 0) break;
      for (; begins != 0; begins &= begins - 1) ends[count++] = at + std::countr_zero(begins);
      at = ends[count - 1];
    }
    if (count == 0) ends[count++] = part_end(text, at);
    return count;
  }

  std::size_t part_end(std::string_view text, std::size_t at) const {
    const auto skip_spaces = [&] { at = std::min(text.find_first_not_of(' ', at), text.size()); };
    if (model_.cut_ == Cut::nowhere) return text.size();
    if (model_.cut_ == Cut::before_spaces) skip_spaces();
    at = std::min(text.find(' ', at), text.size());
    if (model_.cut_ == Cut::after_spaces) skip_spaces();
    return at;
  }

  // Overwrites segments_; sum_ goes on.
  void cut(std::string_view part) {
    if (model_.words_)
      cut_words(part);
    else if (model_.bpe_)
      model_.bpe_->encode(part, segments_, bpe_scratch_);
    else
      model_.unigram_->encode(part, sum_, segments_, unigram_scratch_);
  }

  // A word begins with the text, and with each mark of a space.
  void cut_words(std::string_view part) {
    const std::string_view mark = model_.model_.normalizer.escape_whitespaces ? " " : kSpaceMark;
    check_segment_ends(part);
    segments_.clear();
    for (std::size_t begin = 0, end = 0; begin < part.size(); begin = end) {
      end = std::min(part.find(mark, begin + 1), part.size());
      const auto* const word = model_.words_->find(part.substr(begin, end - begin));
      segments_.push_back({word == model_.words_->end() ? kUnknownPiece : word->second,
                           static_cast<std::uint32_t>(end)});
    }
  }

  void encode_long(std::string_view part) {
    std::size_t begin = 0;  // of the segments that are next
    const auto take = [&] {
      emit(part, begin);
      begin = segments_.back().end;
      segments_.clear();
    };
    if (model_.unigram_)
      model_.unigram_->encode(part, sum_, segments_, unigram_scratch_, nullptr, take);
    else
      cut(part);
    emit(part, begin);
  }

  // The largest sum before a part with which its pieces are certain to be those that were found
  // with 0.  A path of at most n sums is off by n roundings, each of at most 2^-24 of the sum; the
  // difference of two paths by twice that, and so was the difference that was found.
  static float safe_sum(const Unigram<float>::Margin& margin, std::size_t n) {
    const float rounding = static_cast<float>(n) * 0x1p-23f * 1.01f;
    return std::min(margin.to_second / rounding - 2 * margin.largest,
                    kRebaseBeyond * 0.99f - margin.largest);
  }

  // An entry of a unigram model has its safe_sum() in the place of the last id.
  static constexpr std::size_t kSafeSum = PieceCache::kMaxIds - 1;

  void encode_short(std::string_view part, const PieceCache::Key& key, PieceCache::Entry& entry) {
    const bool known = entry.key == key;
    if (known && (!model_.unigram_ || std::abs(sum_) <= std::bit_cast<float>(entry.ids[kSafeSum])))
      return repeat(entry);
    if (!model_.unigram_) {
      cut(part);
      keep(entry, key, PieceCache::kMaxIds);
    } else if (known) {
      cut(part);
    } else {
      cut_anywhere(part, entry, key);
    }
    emit(part);
  }

  // A unigram model's segments of a part, for any sum before it if that is possible.
  void cut_anywhere(std::string_view part, PieceCache::Entry& entry, const PieceCache::Key& key) {
    float sum = 0;
    Unigram<float>::Margin margin;
    model_.unigram_->encode(part, sum, segments_, unigram_scratch_, &margin);
    const float safe = safe_sum(margin, part.size());
    if (keep(entry, key, kSafeSum)) entry.ids[kSafeSum] = std::bit_cast<std::int32_t>(safe);
    if (std::abs(sum_) > safe) return cut(part);
    for (const TextSegment& segment : segments_) sum_ = model_.unigram_->add(sum_, segment.id);
  }

  // Unknown pieces are not kept: their ids depend on what is before them.
  bool keep(PieceCache::Entry& entry, const PieceCache::Key& key, std::size_t most) {
    const auto unknown = [](const TextSegment& segment) { return segment.id == kUnknownPiece; };
    if (segments_.size() > most || std::ranges::any_of(segments_, unknown)) return false;
    entry.key = key;
    entry.count = static_cast<std::int32_t>(segments_.size());
    std::ranges::transform(segments_, entry.ids.begin(), &TextSegment::id);
    return true;
  }

  void repeat(const PieceCache::Entry& entry) {
    ids_.put(entry);
    if (model_.unigram_)
      for (std::int32_t i = 0; i < entry.count; ++i)
        sum_ = model_.unigram_->add(sum_, entry.ids[i]);
    after_unknown_ = false;
  }

  // The segments that begin at part[begin].
  void emit(std::string_view part, std::size_t begin = 0) {
    const SentencePieceModel& model = model_.model_;
    for (const auto& [id, end] : segments_) {
      const bool unknown = id == kUnknownPiece;
      if (unknown && model.byte_fallback)
        for (const char c : part.substr(begin, end - begin)) put_bytes(c);
      else if (!unknown || !after_unknown_)
        ids_.put(unknown ? model.unk : id);
      after_unknown_ = unknown;
      begin = end;
    }
  }

  void put_bytes(char c) {
    const std::string_view bytes = c == ' ' && model_.model_.normalizer.escape_whitespaces
                                       ? kSpaceMark
                                       : std::string_view(&c, 1);
    for (const char byte : bytes)
      ids_.put(model_.model_.byte_ids[static_cast<unsigned char>(byte)]);
  }

  const SentencePiece& model_;
  PieceCache& cache_;
  IdBuffer ids_;
  bool after_unknown_ = false;
  float sum_ = 0;  // of the scores of all pieces so far, or since it was last rebased
  std::vector<TextSegment> segments_;
  Unigram<float>::Scratch unigram_scratch_;
  ScoredBpe::Scratch bpe_scratch_;
};

void SentencePiece::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  std::string normal;
  normalizer_.normalize(text, normal);
  PieceCachePool::Loan cache(caches_);
  Run(*this, *cache, ids).encode(normal);
}

}  // namespace mt
