// Signals: INT, TERM, HUP and USR1, held back and asked for between two steps of work instead of
// interrupting it.  Made once, before the program starts a thread, since threads inherit what is
// held back; not thread-safe.  Threads that were started before (StateRequests', and OpenBLAS's
// when it is loaded) learn to hold a signal back when the first one comes to them.  All stay held
// back when this is gone: who has done its work, or stops already, ends with its own exit code.
//
//   INT               stop cleanly; a second one ends the program at once
//   TERM, HUP, USR1   save a checkpoint and exit with Exit::stopped (a server: drain and exit 0)
//   USR2              print state: StateRequests, in every program
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace mt {

enum class Signal : int {
  interrupt = SIGINT,
  terminate = SIGTERM,
  hangup = SIGHUP,  // of the terminal
  user1 = SIGUSR1,
  user2 = SIGUSR2,  // never polled
  pipe = SIGPIPE,   // never held back: thrown by who writes to a pipe that nobody reads any more
};

const char* signal_name(Signal signal);  // "SIGINT"

class Signals {
 public:
  Signals();  // those that the parent had ignored (nohup, a shell's background job) stay ignored
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();

  // From now on a thread calls this with each signal when it comes, before poll() gives it away,
  // and a second INT ends the program also where nobody polls.  Once this has returned, an answer
  // that was given before is not called any more.
  void answer(std::function<void(Signal)> at_once);

  // One that has come since the last call, or nothing; waits for one no longer than `most`.
  std::optional<Signal> poll(std::chrono::nanoseconds most = {});

 private:
  std::optional<Signal> wait(std::chrono::nanoseconds most);
  void tell(Signal signal);

  std::mutex mutex_;  // of the next three
  sigset_t held_;
  std::function<void(Signal)> at_once_;
  std::deque<Signal> came_;  // told of, and not polled yet
  std::atomic<bool> ends_ = false;
  std::thread answers_;
};

// While it lives, USR2 has a thread call `tell`, unless the parent had it ignored.  Made before the
// program starts a thread.
class StateRequests {
 public:
  explicit StateRequests(std::function<void()> tell);
  StateRequests(const StateRequests&) = delete;
  StateRequests& operator=(const StateRequests&) = delete;
  ~StateRequests();

 private:
  std::function<void()> tell_;
  std::atomic<bool> ends_ = false;
  std::optional<pthread_t> answers_;
};

// Ends the program as the signal does, held back or not.
[[noreturn]] void end_by(Signal signal);

}  // namespace mt
