#include "comm/nccl_memory.h"

#include <algorithm>

namespace mt {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// A communicator has 6 MiB, and of each channel's buffers 6 for messages at once, and 12 more for
// what it carries.
std::size_t NcclMemory::Communicator::bytes() const {
  const auto most = static_cast<std::size_t>(most_channels(carries));
  const std::size_t collective_channels = most > 0 ? most : 24,
                    message_channels = most > 0 ? most : 32;
  return kMiB * (6 + 6 * message_channels + (collectives ? 12 * collective_channels : 0) +
                 (messages ? 12 * message_channels : 0));
}

// NCCL itself, its kernels, and what goes with messages.
std::size_t NcclMemory::bytes() const {
  if (communicators_.empty()) return 0;
  std::size_t bytes = kMiB * (188 + 186);
  if (std::ranges::any_of(communicators_, &Communicator::messages)) bytes += kMiB * 62;
  for (const Communicator& one : communicators_) bytes += one.bytes();
  return bytes;
}

}  // namespace mt
