// byte_order_mark: in what encoding a text file is, by what it begins with.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mt {

// The bytes of the mark that `start`, with which the text `name` begins, has in front of UTF-8: 3
// or 0.  UTF-16 and UTF-32 are Exit::bad_data, with or without a mark.
std::size_t byte_order_mark(std::string_view start, const std::string& name);

}  // namespace mt
