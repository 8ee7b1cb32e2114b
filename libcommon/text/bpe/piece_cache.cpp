#include "text/bpe/piece_cache.h"

#include <sys/mman.h>

#include <functional>
#include <new>
#include <thread>

#include "base/large_pages.h"

namespace mt {

// Zeros, without touching a page before it is used; large pages, as the accesses are random.
std::unique_ptr<PieceCache::Entry[], PieceCache::Unmap> PieceCache::make_entries() {
  constexpr std::size_t kBytes = kEntries * sizeof(Entry);
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  ask_for_large_pages(memory, kBytes);
  return std::unique_ptr<Entry[], Unmap>(static_cast<Entry*>(memory));
}

void PieceCache::Unmap::operator()(Entry* entries) const {
  munmap(entries, kEntries * sizeof(Entry));
}

// The key's entry, which comes to its first place; for a new key a free one, or any of the four: a
// piece that is common is soon back, and where it is put then is rarely wanted by another common
// one.
PieceCache::Entry& PieceCache::other_entry(const Key& key) {
  const std::size_t home = slot(key);
  for (std::size_t place = 1; place < kPlaces; ++place)
    if (entries_[home ^ place].key == key) {
      std::swap(entries_[home], entries_[home ^ place]);
      return entries_[home];
    }
  for (std::size_t place = 0; place < kPlaces; ++place)
    if (entries_[home ^ place].key == Key{0, 0}) return entries_[home ^ place];
  return entries_[home ^ dropped_++ % kPlaces];
}

PieceCachePool::~PieceCachePool() {
  for (Place& place : idle_) delete place.cache.load();
}

static std::size_t home_slot() {
  thread_local const std::size_t home = std::hash<std::thread::id>()(std::this_thread::get_id());
  return home;
}

std::unique_ptr<PieceCache> PieceCachePool::take() {
  const std::size_t home = home_slot();
  for (std::size_t i = 0; i < idle_.size(); ++i) {
    std::atomic<PieceCache*>& slot = idle_[(home + i) % idle_.size()].cache;
    if (slot.load(std::memory_order_relaxed) == nullptr) continue;
    if (PieceCache* cache = slot.exchange(nullptr)) return std::unique_ptr<PieceCache>(cache);
  }
  return std::make_unique<PieceCache>();
}

void PieceCachePool::give_back(std::unique_ptr<PieceCache> cache) {
  const std::size_t home = home_slot();
  for (std::size_t i = 0; i < idle_.size(); ++i) {
    PieceCache* none = nullptr;
    if (idle_[(home + i) % idle_.size()].cache.compare_exchange_strong(none, cache.get())) {
      static_cast<void>(cache.release());  // idle_ owns it
      return;
    }
  }
}

}  // namespace mt
