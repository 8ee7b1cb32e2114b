// Pages of 2 MiB, one of which the kernel can put in the place of 512 of 4 KiB.  Large tables are
// read faster in them.  A range of which few pages are used costs more memory in them: all of it.
#pragma once

#include <cstddef>

namespace mt {

inline constexpr std::size_t kLargePage = std::size_t{2} << 20;  // bytes

// Asks for large pages in a mapping of so many bytes; a hint.
void ask_for_large_pages(void* mapping, std::size_t bytes);

// From now on this process gets large pages only where it asks for them, and not wherever the
// system's setting is "always".  There the kernel looks through all memory, a range every few
// minutes, and what an allocator has reserved and hardly used becomes memory that is held.  Says
// whether the kernel can do so; Linux can from 6.18 on.
bool keep_large_pages_to_who_asks();

}  // namespace mt
