// SHA-256 (FIPS 180-4) of a text, where others' files name it; our own have base/hash.h's.
#pragma once

#include <string>
#include <string_view>

namespace mt {

std::string sha256_hex(std::string_view text);

}  // namespace mt
