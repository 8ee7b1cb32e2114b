// Base64 (RFC 4648, 4), with its padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mt {

// Nothing for a text that is the base64 of no bytes, or of none at all.
std::optional<std::string> from_base64(std::string_view text);
std::string to_base64(std::string_view bytes);

}  // namespace mt
