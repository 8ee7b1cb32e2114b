// ChatFailure: what went wrong while a template is rendered; whoever renders knows where.
#pragma once

#include <string>

namespace mt {

struct ChatFailure {
  std::string what;
};

}  // namespace mt
