// ContextComm: how ranks that share sequences pass on what attention needs (nn/context_parallel.h).
#pragma once

#include <cstdint>

namespace mt {

enum class ContextComm : std::uint8_t { p2p, all_gather, a2a, a2a_p2p };

}  // namespace mt
