// PieceCache: remembers the ids of short pieces of text, because a few thousand words make most of
// any text.  A piece has four places; one that is asked for comes to the first, and what was there
// takes its place.  For one thread at a time; PieceCachePool lends caches to threads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace mt {

class PieceCache {
 public:
  static constexpr std::size_t kMaxBytes = 15;  // of a piece
  static constexpr std::size_t kMaxIds = 11;    // of a piece

  struct Key {  // the bytes, then zeros; the last byte is the length
    std::uint64_t low, high;
    bool operator==(const Key&) const = default;
  };
  struct alignas(64) Entry {  // one cache line
    Key key;                  // of length 0: unused
    std::int32_t count;
    std::array<std::int32_t, kMaxIds> ids;
  };

  PieceCache() : entries_(make_entries()) {}

  // The key of the piece text[at, at + length), length in [1, kMaxBytes].
  static Key key(std::string_view text, std::size_t at, std::size_t length) {
    Key key = {0, 0};
    if (text.size() - at >= sizeof key) {  // one load, and the bytes behind the piece taken away
      std::memcpy(&key, text.data() + at, sizeof key);
      key = {key.low & kMasks[length][0], key.high & kMasks[length][1]};
    } else {
      std::memcpy(&key, text.data() + at, length);
    }
    key.high |= std::uint64_t{length} << 56;
    return key;
  }

  // Where the key belongs: its own entry, or one to be overwritten with it.
  Entry& entry(const Key& key) { return entry(key, entries_[slot(key)]); }
  // entry() in two steps: first() asks for the memory, a while before it is looked at.
  Entry& first(const Key& key) {
    Entry& home = entries_[slot(key)];
    __builtin_prefetch(&home);
    return home;
  }
  Entry& entry(const Key& key, Entry& home) { return home.key == key ? home : other_entry(key); }

 private:
  static constexpr std::size_t kPlaces = 4;
  static constexpr int kEntryBits = 18;
  static constexpr std::size_t kEntries = std::size_t{1} << kEntryBits;  // 16 MiB

  // Masks of the first bytes of a key, by their number.
  static constexpr std::array<std::array<std::uint64_t, 2>, kMaxBytes + 1> kMasks = [] {
    std::array<std::array<std::uint64_t, 2>, kMaxBytes + 1> masks{};
    for (std::size_t length = 0; length <= kMaxBytes; ++length)
      for (std::size_t byte = 0; byte < length; ++byte)
        masks[length][byte / 8] |= std::uint64_t{0xFF} << (byte % 8 * 8);
    return masks;
  }();

  static std::size_t slot(const Key& key) {
    const std::uint64_t mixed = key.low * 0x9E3779B97F4A7C15u ^ key.high * 0xFF51AFD7ED558CCDu;
    return mixed >> (64 - kEntryBits);  // the highest bits depend on all of the key
  }

  struct Unmap {
    void operator()(Entry* entries) const;
  };
  static std::unique_ptr<Entry[], Unmap> make_entries();
  Entry& other_entry(const Key& key);

  std::unique_ptr<Entry[], Unmap> entries_;
  std::size_t dropped_ = 0;  // how many pieces had to make room
};

// Caches for as many threads as there are at a time; a thread mostly gets the one it had before.
class PieceCachePool {
 public:
  class Loan {  // returns the cache when destroyed
   public:
    explicit Loan(PieceCachePool& pool) : pool_(pool), cache_(pool.take()) {}
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan() { pool_.give_back(std::move(cache_)); }
    PieceCache& operator*() { return *cache_; }

   private:
    PieceCachePool& pool_;
    std::unique_ptr<PieceCache> cache_;
  };

  PieceCachePool() = default;
  PieceCachePool(const PieceCachePool&) = delete;
  PieceCachePool& operator=(const PieceCachePool&) = delete;
  ~PieceCachePool();

 private:
  std::unique_ptr<PieceCache> take();
  void give_back(std::unique_ptr<PieceCache> cache);

  struct alignas(64) Place {  // no two in a cache line, which threads would take from each other
    std::atomic<PieceCache*> cache = nullptr;
  };
  std::array<Place, 256> idle_{};  // owned; more threads make and drop their own
};

}  // namespace mt
