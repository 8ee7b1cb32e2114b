#include "data/corpus/large_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace mt {

void use_large_pages() {
#if defined(__GLIBC__)
  constexpr std::size_t kHeap = 32 << 20, kLarge = 8 << 20, kPage = 2 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kHeap);  // else blocks from 128 KiB on are mappings of their own
  ::mallopt(M_TOP_PAD, kHeap);         // by how much more than it needs the heap grows
  const auto heap_end = [] { return reinterpret_cast<std::uintptr_t>(::sbrk(0)); };
  const std::uintptr_t begin = (heap_end() + kPage - 1) / kPage * kPage;
  void* volatile const more = std::malloc(kPage);
  if (heap_end() >= begin + kLarge)  // not where a sanitizer has the heap
    ::madvise(reinterpret_cast<void*>(begin), kLarge, MADV_HUGEPAGE);  // a hint
  std::free(more);
#endif
}

}  // namespace mt
