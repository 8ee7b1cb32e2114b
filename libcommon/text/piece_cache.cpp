#include "text/piece_cache.h"

#include <functional>
#include <thread>

namespace mt {

PieceCachePool::~PieceCachePool() {
  for (std::atomic<PieceCache*>& slot : idle_) delete slot.load();
}

static std::size_t home_slot() { return std::hash<std::thread::id>()(std::this_thread::get_id()); }

std::unique_ptr<PieceCache> PieceCachePool::take() {
  const std::size_t home = home_slot();
  for (std::size_t i = 0; i < idle_.size(); ++i) {
    std::atomic<PieceCache*>& slot = idle_[(home + i) % idle_.size()];
    if (slot.load(std::memory_order_relaxed) == nullptr) continue;
    if (PieceCache* cache = slot.exchange(nullptr)) return std::unique_ptr<PieceCache>(cache);
  }
  return std::make_unique<PieceCache>();
}

void PieceCachePool::give_back(std::unique_ptr<PieceCache> cache) {
  const std::size_t home = home_slot();
  for (std::size_t i = 0; i < idle_.size(); ++i) {
    PieceCache* none = nullptr;
    if (idle_[(home + i) % idle_.size()].compare_exchange_strong(none, cache.get())) {
      static_cast<void>(cache.release());  // idle_ owns it
      return;
    }
  }
}

}  // namespace mt
