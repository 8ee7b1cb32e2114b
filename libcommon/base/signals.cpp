#include "base/signals.h"

#include <pthread.h>

#include <cerrno>
#include <ctime>
#include <system_error>

namespace mt {

const char* signal_name(Signal signal) {
  switch (signal) {
    case Signal::interrupt:
      return "SIGINT";
    case Signal::terminate:
      return "SIGTERM";
    case Signal::user1:
      return "SIGUSR1";
    case Signal::user2:
      return "SIGUSR2";
  }
  return "";
}

Signals::Signals() {
  ::sigemptyset(&held_);
  for (const Signal signal : {Signal::interrupt, Signal::terminate, Signal::user1, Signal::user2}) {
    struct sigaction action;
    ::sigaction(static_cast<int>(signal), nullptr, &action);
    // Linux keeps a held-back signal even if it is ignored, so poll() would find it.
    if (action.sa_handler != SIG_IGN) ::sigaddset(&held_, static_cast<int>(signal));
  }
  const int error = ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
  if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_sigmask");
}

Signals::~Signals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<Signal> Signals::poll() {
  const timespec no_time = {};
  int number;
  do {
    number = ::sigtimedwait(&held_, nullptr, &no_time);
  } while (number < 0 && errno == EINTR);
  if (number < 0) return {};
  if (number == SIGINT) {  // the next one is not held back; its action is the default, to end us
    ::sigdelset(&held_, SIGINT);
    sigset_t interrupt;
    ::sigemptyset(&interrupt);
    ::sigaddset(&interrupt, SIGINT);
    ::pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
  }
  return static_cast<Signal>(number);
}

}  // namespace mt
