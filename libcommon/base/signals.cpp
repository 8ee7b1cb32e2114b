#include "base/signals.h"

#include <pthread.h>
#include <ucontext.h>
#include <unistd.h>

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
    case Signal::hangup:
      return "SIGHUP";
    case Signal::user1:
      return "SIGUSR1";
    case Signal::user2:
      return "SIGUSR2";
    case Signal::pipe:
      return "SIGPIPE";
  }
  return "";
}

// Runs in a thread that does not hold the signal back.  It does so from now on, and the signal is
// sent to the process once more, where it waits for poll().  No state: all is async-signal-safe.
static void hold_back(int number, siginfo_t*, void* context) {
  const int saved = errno;
  ::sigaddset(&static_cast<ucontext_t*>(context)->uc_sigmask, number);
  ::kill(::getpid(), number);
  errno = saved;
}

Signals::Signals() {
  ::sigemptyset(&held_);
  for (const Signal signal :
       {Signal::interrupt, Signal::terminate, Signal::hangup, Signal::user1, Signal::user2}) {
    Held held{static_cast<int>(signal), {}};
    ::sigaction(held.number, nullptr, &held.before);
    // Linux keeps a held-back signal even if it is ignored, so poll() would find it.
    if (held.before.sa_handler == SIG_IGN) continue;
    ::sigaddset(&held_, held.number);
    actions_.push_back(held);
  }
  const int error = ::pthread_sigmask(SIG_BLOCK, &held_, &before_);
  if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_sigmask");
  struct sigaction action = {};
  action.sa_sigaction = hold_back;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const Held& held : actions_) ::sigaction(held.number, &action, nullptr);
}

Signals::~Signals() {
  for (const Held& held : actions_) ::sigaction(held.number, &held.before, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<Signal> Signals::poll(std::chrono::nanoseconds most) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(most);
  const timespec time = {.tv_sec = seconds.count(), .tv_nsec = (most - seconds).count()};
  int number;
  do {
    number = ::sigtimedwait(&held_, nullptr, &time);
  } while (number < 0 && errno == EINTR);
  if (number < 0) return {};
  if (number == SIGINT) {  // the next one is not held back, and ends us
    ::signal(SIGINT, SIG_DFL);
    ::sigdelset(&held_, SIGINT);
    sigset_t interrupt;
    ::sigemptyset(&interrupt);
    ::sigaddset(&interrupt, SIGINT);
    ::pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
  }
  return static_cast<Signal>(number);
}

}  // namespace mt
