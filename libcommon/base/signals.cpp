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

// Holds one back on this thread, and on all that are started from now on.  False: the parent had it
// ignored, and it stays so; Linux would keep it for whoever waits.
static bool hold(int number) {
  struct sigaction before;
  ::sigaction(number, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return false;
  struct sigaction action = {};
  action.sa_sigaction = hold_back;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(number, &action, nullptr);
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, number);
  const int error = ::pthread_sigmask(SIG_BLOCK, &one, nullptr);
  if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_sigmask");
  return true;
}

Signals::Signals() {
  ::sigemptyset(&held_);
  for (const Signal signal :
       {Signal::interrupt, Signal::terminate, Signal::hangup, Signal::user1}) {
    const int number = static_cast<int>(signal);
    if (hold(number)) ::sigaddset(&held_, number);
  }
}

Signals::~Signals() {
  ends_ = true;
  if (answers_.joinable()) answers_.join();
}

void Signals::answer(std::function<void(Signal)> at_once) {
  {
    const std::lock_guard lock(mutex_);
    at_once_ = std::move(at_once);
  }
  if (answers_.joinable()) return;
  answers_ = std::thread([this] {
    while (!ends_) {
      if (const std::optional<Signal> came = wait(std::chrono::milliseconds(10))) tell(*came);
    }
  });
}

// From now on it acts, on this thread too.
static void let_go(int number) {
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, number);
  ::signal(number, SIG_DFL);
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
}

std::optional<Signal> Signals::wait(std::chrono::nanoseconds most) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(most);
  const timespec time = {.tv_sec = seconds.count(), .tv_nsec = (most - seconds).count()};
  std::unique_lock lock(mutex_);
  const sigset_t held = held_;
  lock.unlock();
  int number;
  do {
    number = ::sigtimedwait(&held, nullptr, &time);
  } while (number < 0 && errno == EINTR);
  if (number < 0) return {};
  if (number == SIGINT) {  // the next one is not held back, and ends us
    lock.lock();
    if (::sigismember(&held_, SIGINT) != 1) end_by(Signal::interrupt);  // another thread has had it
    ::sigdelset(&held_, SIGINT);
    let_go(SIGINT);
  }
  return static_cast<Signal>(number);
}

void Signals::tell(Signal signal) {
  const std::lock_guard lock(mutex_);
  if (at_once_) at_once_(signal);
  came_.push_back(signal);
}

std::optional<Signal> Signals::poll(std::chrono::nanoseconds most) {
  if (!answers_.joinable()) return wait(most);
  // What was sent to this thread alone, the other one does not see.
  if (const std::optional<Signal> own = wait(most)) tell(*own);
  const std::lock_guard lock(mutex_);
  if (came_.empty()) return {};
  const Signal first = came_.front();
  came_.pop_front();
  return first;
}

StateRequests::StateRequests(std::function<void()> tell) : tell_(std::move(tell)) {
  constexpr std::size_t kStack = 256
                                 << 10;  // of the 8 MiB that others take some have to do without
  if (!hold(SIGUSR2)) return;
  const auto body = [](void* of) -> void* {
    auto& self = *static_cast<StateRequests*>(of);
    sigset_t one;
    ::sigemptyset(&one);
    ::sigaddset(&one, SIGUSR2);
    for (int number; ::sigwait(&one, &number) == 0 && !self.ends_;) self.tell_();
    return nullptr;
  };
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStack);
  pthread_t thread;
  // Where there is no thread more, it stays held back, and unanswered.
  if (::pthread_create(&thread, &attributes, body, this) == 0) answers_ = thread;
  ::pthread_attr_destroy(&attributes);
}

StateRequests::~StateRequests() {
  if (!answers_) return;
  ends_ = true;
  ::pthread_kill(*answers_, SIGUSR2);
  ::pthread_join(*answers_, nullptr);
}

void end_by(Signal signal) {
  const int number = static_cast<int>(signal);
  let_go(number);
  ::raise(number);
  ::_exit(128 + number);  // never reached
}

}  // namespace mt
