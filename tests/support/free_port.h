// A TCP port of this machine that nobody listens at.
#pragma once

#include <unistd.h>

#include "comm/socket.h"

namespace mt {

inline int free_port() {
  for (int port = 20000 + ::getpid() % 10000;; ++port) try {
      listen_on("localhost", port);
      return port;
    } catch (const Error&) {  // taken
    }
}

}  // namespace mt
