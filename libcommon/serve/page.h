// The page at /, on which a prompt can be tried in a browser: all of it, with nothing from outside.
#pragma once

#include <string_view>

namespace mt {

extern const std::string_view kPage;  // HTML

}  // namespace mt
