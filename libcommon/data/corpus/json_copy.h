// The inner loop of reading JSON strings (RFC 8259, 7): copies what stands for itself, and what a
// backslash and one letter stand for.  Several instruction sets, the same result.
#pragma once

#include <cstddef>

namespace mt {

struct JsonCopy {
  // Behind what was copied: `end` or later, or the quote, the control character or the escape of
  // another kind that ended it.
  const char* at;
  char* room;  // behind the copy
  bool ascii;  // all that was copied from
};

// Copies to `room` from `at` on.  kJsonPadding bytes behind `end` must be readable, and as many
// more of `room` writable than are between `at` and `end`.
constexpr std::size_t kJsonPadding = 64;
using JsonCopier = JsonCopy (*)(const char* at, const char* end, char* room);

JsonCopier json_copier();           // the fastest that runs here
JsonCopier portable_json_copier();  // one that runs anywhere

}  // namespace mt
