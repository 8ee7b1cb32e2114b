#include "text/bpe/byte_bpe.h"

#include <algorithm>

#include "text/id_buffer.h"

namespace mt {
namespace {

// Encodes pieces one after another with one thread's cache.
class PieceEncoder {
 public:
  PieceEncoder(const ByteBpe::Rules& rules, PieceCache& cache, std::vector<std::int32_t>& ids)
      : rules_(rules), cache_(cache), ids_(ids) {}

  static constexpr std::size_t kMostPieces = 256;  // that are encoded together

  // Appends the ids of the pieces of `text` that begin at `at` and end at `ends`, kMostPieces at
  // most.  All their cache entries are asked for before the first is looked at.
  void encode(std::string_view text, std::size_t at, std::span<const std::size_t> ends) {
    std::size_t begin = at;
    for (std::size_t i = 0; i < ends.size(); begin = ends[i++]) {
      const std::size_t length = ends[i] - begin;
      keys_[i] = length > PieceCache::kMaxBytes ? kLong : PieceCache::key(text, begin, length);
      places_[i] = &cache_.first(keys_[i]);
    }
    std::int32_t* to = ids_.room(kMostIds);
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const PieceCache::Entry* entry = places_[i];
      if (entry->key != keys_[i]) {
        begin = i == 0 ? at : ends[i - 1];
        entry = other_entry(text.substr(begin, ends[i] - begin), i);
      }
      if (entry == nullptr) {
        ids_.wrote(to);
        for (const std::int32_t id : merged_) ids_.put(id);
        to = ids_.room(kMostIds);
      } else {
        to = IdBuffer::write(*entry, to);
      }
    }
    ids_.wrote(to);
  }

  void finish() { ids_.flush(); }

 private:
  static constexpr std::size_t kMostIds = kMostPieces * PieceCache::kMaxIds;
  // The key of a piece that the cache does not take; no entry has it.
  static constexpr PieceCache::Key kLong = {0, ~std::uint64_t{0}};

  // The entry of a piece that is not in its first place; null where the cache does not take the
  // piece, whose ids are in merged_ then.
  [[gnu::noinline]] const PieceCache::Entry* other_entry(std::string_view piece, std::size_t i) {
    if (keys_[i] == kLong) {
      merge(piece);
      return nullptr;
    }
    PieceCache::Entry& entry = cache_.entry(keys_[i], *places_[i]);
    if (entry.key == keys_[i]) return &entry;
    merge(piece);
    if (merged_.size() > PieceCache::kMaxIds) return nullptr;
    entry.key = keys_[i];
    entry.count = static_cast<std::int32_t>(merged_.size());
    std::ranges::copy(merged_, entry.ids.begin());
    return &entry;
  }

  // Overwrites merged_ with the ids of a piece.
  void merge(std::string_view piece) {
    merged_.clear();
    if (!rules_.whole.empty())
      if (const auto token = rules_.whole.find(piece); token != rules_.whole.end())
        return merged_.push_back(token->second);
    symbols_.clear();
    symbols_.reserve(piece.size());
    for (const char byte : piece) {
      const ByteBpe::Symbol symbol = rules_.bytes[static_cast<unsigned char>(byte)];
      if (symbol != ByteBpe::kDropped) symbols_.push_back(symbol);
    }
    rules_.merges.apply(symbols_);
    merged_.resize(symbols_.size());
    std::ranges::transform(symbols_, merged_.begin(),
                           [&](ByteBpe::Symbol symbol) { return rules_.symbol_ids[symbol]; });
  }

  const ByteBpe::Rules& rules_;
  PieceCache& cache_;
  IdBuffer ids_;
  std::array<PieceCache::Key, kMostPieces> keys_;
  std::array<PieceCache::Entry*, kMostPieces> places_;
  std::vector<ByteBpe::Symbol> symbols_;
  std::vector<std::int32_t> merged_;
};

}  // namespace

ByteBpe::ByteBpe(Rules rules)
    : rules_(std::move(rules)), caches_(std::make_unique<PieceCachePool>()) {
  rules_.merges.prepare();
}

void ByteBpe::encode(std::string_view text, std::span<const std::size_t> ends,
                     std::vector<std::int32_t>& ids) const {
  PieceCachePool::Loan cache(*caches_);
  PieceEncoder encoder(rules_, *cache, ids);
  for (std::size_t at = 0; !ends.empty();) {
    const auto some = ends.first(std::min(ends.size(), PieceEncoder::kMostPieces));
    encoder.encode(text, at, some);
    at = some.back();
    ends = ends.subspan(some.size());
  }
  encoder.finish();
}

void ByteBpe::encode(std::string_view text, Splitter split, std::vector<std::int32_t>& ids) const {
  PieceCachePool::Loan cache(*caches_);
  PieceEncoder encoder(rules_, *cache, ids);
  std::array<std::size_t, PieceEncoder::kMostPieces> ends;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = split(text, at, ends);
    encoder.encode(text, at, std::span(ends).first(count));
    at = ends[count - 1];
  }
  encoder.finish();
}

}  // namespace mt
