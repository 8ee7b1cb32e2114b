// Numbers of the zip format that reader and writer share (ckpt/zip.h describes it).
#pragma once

#include <cstdint>

namespace mt::zip {

inline constexpr std::uint32_t kLocalHeader = 0x04034B50, kDescriptor = 0x08074B50;
inline constexpr std::uint32_t kCentralEntry = 0x02014B50;
inline constexpr std::uint32_t kEnd64 = 0x06064B50, kLocator64 = 0x07064B50, kEnd = 0x06054B50;
inline constexpr std::uint64_t kLocalHeaderSize = 30, kCentralEntrySize = 46;
inline constexpr std::uint64_t kEnd64Size = 56, kLocator64Size = 20, kEndSize = 22;
inline constexpr std::uint16_t kZip64Extra = 1;      // id of the extra field of large sizes
inline constexpr std::uint64_t kLarge = 0xFFFFFFFF;  // from here on sizes and offsets need it
inline constexpr std::uint16_t kEncrypted = 1, kHasDescriptor = 1 << 3, kUtf8 = 1 << 11;
inline constexpr std::uint16_t kStored = 0, kDeflated = 8;
inline constexpr std::uint64_t kAlignment = 64;

}  // namespace mt::zip
