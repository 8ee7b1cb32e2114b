#include "text/byte_bpe.h"

#include <algorithm>

namespace mt {
namespace {

// Encodes pieces one after another with one thread's cache.
class PieceEncoder {
 public:
  PieceEncoder(const ByteBpe::Rules& rules, PieceCache& cache) : rules_(rules), cache_(cache) {}

  // Appends the ids of the pieces of `text` that begin at `at` and end at `ends`.
  void encode(std::string_view text, std::size_t at, std::span<const std::size_t> ends,
              std::vector<std::int32_t>& ids) {
    if (ends.empty()) return;
    // A token is at least one byte long.
    const std::size_t used = ids.size();
    ids.resize(used + (ends.back() - at) + PieceCache::kMaxIds);
    std::int32_t* out = ids.data() + used;
    for (const std::size_t end : ends) {
      out = encode(text, at, end - at, out);
      at = end;
    }
    ids.resize(out - ids.data());
  }

 private:
  // Writes the ids of text[at, at + length) to `out`, which has room for kMaxIds of them and for
  // `length`, and returns the end of what was written.
  std::int32_t* encode(std::string_view text, std::size_t at, std::size_t length,
                       std::int32_t* out) {
    if (length > PieceCache::kMaxBytes) return merge(text.substr(at, length), out);
    const PieceCache::Key key = PieceCache::key(text, at, length);
    PieceCache::Entry& entry = cache_.entry(key);
    if (entry.key != key) {
      std::int32_t* end = merge(text.substr(at, length), out);
      if (end - out > static_cast<std::ptrdiff_t>(PieceCache::kMaxIds)) return end;
      entry.key = key;
      entry.count = static_cast<std::int32_t>(end - out);
      std::copy(out, end, entry.ids.begin());
      return end;
    }
    std::copy(entry.ids.begin(), entry.ids.end(), out);  // all of them: no loop, no branch
    return out + entry.count;
  }

  std::int32_t* merge(std::string_view piece, std::int32_t* out) {
    if (!rules_.whole.empty()) {
      if (const auto token = rules_.whole.find(piece); token != rules_.whole.end()) {
        *out = token->second;
        return out + 1;
      }
    }
    symbols_.clear();
    for (const char byte : piece) {
      const ByteBpe::Symbol symbol = rules_.bytes[static_cast<unsigned char>(byte)];
      if (symbol != ByteBpe::kDropped) symbols_.push_back(symbol);
    }
    rules_.merges.apply(symbols_);
    for (const ByteBpe::Symbol symbol : symbols_) *out++ = rules_.symbol_ids[symbol];
    return out;
  }

  const ByteBpe::Rules& rules_;
  PieceCache& cache_;
  std::vector<ByteBpe::Symbol> symbols_;
};

}  // namespace

ByteBpe::ByteBpe(Rules rules)
    : rules_(std::move(rules)), caches_(std::make_unique<PieceCachePool>()) {
  rules_.merges.prepare();
}

void ByteBpe::encode(std::string_view text, std::span<const std::size_t> ends,
                     std::vector<std::int32_t>& ids) const {
  PieceCachePool::Loan cache(*caches_);
  PieceEncoder(rules_, *cache).encode(text, 0, ends, ids);
}

void ByteBpe::encode(std::string_view text, Splitter split, std::vector<std::int32_t>& ids) const {
  PieceCachePool::Loan cache(*caches_);
  PieceEncoder encoder(rules_, *cache);
  std::array<std::size_t, 256> ends;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = split(text, at, ends);
    encoder.encode(text, at, std::span(ends).first(count), ids);
    at = ends[count - 1];
  }
}

}  // namespace mt
