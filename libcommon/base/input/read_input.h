// read_input: all the text that a file or stdin has, for formats that are no lines.
#pragma once

#include <functional>
#include <string>

namespace mt {

// "-" is stdin.  A byte order mark in front is no part of it, and UTF-16 is Exit::bad_data.  Packed
// content is unpacked, and `while_waiting` run, as ByteSource does it.
std::string read_input(const std::string& path, std::function<void()> while_waiting);

}  // namespace mt
