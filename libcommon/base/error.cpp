#include "base/error.h"

#include <cerrno>
#include <charconv>
#include <system_error>

namespace mt {

template <class... Number>
static void append_characters(std::string& line, Number... number) {
  char text[32];
  line.append(text, std::to_chars(text, text + sizeof text, number...).ptr);
}

void append_number(std::string& line, long long number) { append_characters(line, number); }
void append_number(std::string& line, unsigned long long number) {
  append_characters(line, number);
}
void append_number(std::string& line, double number) {
  append_characters(line, number, std::chars_format::general, 6);
}

static Exit code_of(int error, Exit otherwise) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return otherwise == Exit::cannot_create ? otherwise : Exit::no_input;
    case EACCES:
    case EPERM:
      return Exit::no_permission;
    case EROFS:
      return Exit::cannot_create;
    case ENOMEM:
      return Exit::out_of_memory;
    case EIO:
    case ENOSPC:
    case EDQUOT:
      return Exit::io_error;
    default:
      return otherwise;
  }
}

void fail_errno(const std::string& path, const char* what, Exit otherwise) {
  const int error = errno;
  fail(code_of(error, otherwise), path.empty() ? "\"\"" : path, ": ", what, ": ",
       std::generic_category().message(error));
}

}  // namespace mt
