#include "base/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/error.h"

namespace mt {

std::uint64_t available_memory() {
  std::uint64_t bytes = 0, some = 0;
  std::ifstream system("/proc/meminfo");
  for (std::string word; system >> word;)
    if ((word == "MemAvailable:" || word == "SwapFree:") && system >> some) bytes += some << 10;
  if (bytes == 0) bytes = std::numeric_limits<std::uint64_t>::max();  // it does not say
  for (const char* const limit :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
    if (std::ifstream(limit) >> some) bytes = std::min(bytes, some);  // "max" is no number
  return bytes;
}

void expect_memory(std::uint64_t bytes, const std::string& what) {
  if (const std::uint64_t available = available_memory(); bytes > available)
    fail(Exit::out_of_memory, what, " needs at least ", bytes, " bytes of memory, of which ",
         available, " are available");
}

}  // namespace mt
