// What goes to stdout.
#pragma once

#include <string_view>

namespace mt {

// Writes it at once, so that whoever reads a pipe, or stops the program, has all that came before.
// Exit::io_error where it cannot be written.
void print_now(std::string_view text);

}  // namespace mt
