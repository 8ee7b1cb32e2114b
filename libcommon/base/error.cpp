#include "base/error.h"

#include <cerrno>
#include <system_error>

namespace mt {

static Exit code_of(int error, Exit otherwise) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return Exit::no_input;
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
