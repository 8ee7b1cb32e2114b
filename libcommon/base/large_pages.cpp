#include "base/large_pages.h"

#include <sys/mman.h>
#include <sys/prctl.h>

namespace mt {

void ask_for_large_pages(void* mapping, std::size_t bytes) {
  if (bytes >= kLargePage) ::madvise(mapping, bytes, MADV_HUGEPAGE);
}

bool keep_large_pages_to_who_asks() {
  constexpr unsigned long kExceptAdvised = 1UL << 1;  // PR_THP_DISABLE_EXCEPT_ADVISED of Linux 6.18
  return ::prctl(PR_SET_THP_DISABLE, 1UL, kExceptAdvised, 0UL, 0UL) == 0;
}

}  // namespace mt
