// What goes to stdout.
#pragma once

#include <string>
#include <string_view>

namespace mt {

// Writes it at once, so that whoever reads a pipe, or stops the program, has all that came before.
// Exit::io_error where it cannot be written.
void print_now(std::string_view text);

// The text on one line: control characters, which a file's content may have put there, are escaped.
std::string one_line(std::string_view text);

}  // namespace mt
