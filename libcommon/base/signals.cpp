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
  struct sigaction action = {};
  action.sa_sigaction = hold_back;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigemptyset(&held_);
  for (const Signal signal :
       {Signal::interrupt, Signal::terminate, Signal::hangup, Signal::user1, Signal::user2}) {
    const int number = static_cast<int>(signal);
    struct sigaction before;
    ::sigaction(number, nullptr, &before);
    // Linux keeps a held-back signal even if it is ignored, so poll() would find it.
    if (before.sa_handler == SIG_IGN) continue;
    ::sigaddset(&held_, number);
    ::sigaction(number, &action, nullptr);
  }
  const int error = ::pthread_sigmask(SIG_BLOCK, &held_, nullptr);
  if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_sigmask");
}

// From now on it acts, on this thread too.
static void let_go(int number) {
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, number);
  ::signal(number, SIG_DFL);
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
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
    ::sigdelset(&held_, SIGINT);
    let_go(SIGINT);
  }
  return static_cast<Signal>(number);
}

void end_by(Signal signal) {
  const int number = static_cast<int>(signal);
  let_go(number);
  ::raise(number);
  ::_exit(128 + number);  // never reached
}

}  // namespace mt
