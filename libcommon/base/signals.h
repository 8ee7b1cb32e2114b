// Signals: INT, TERM, HUP, USR1 and USR2, held back and asked for between two steps of work instead
// of interrupting it.  Made once, before the program starts a thread, since threads inherit what is
// held back; not thread-safe.  Threads that libraries had started before (OpenBLAS does so when it
// is loaded) learn to hold a signal back when the first one comes to them.  All stay held back when
// this is gone: who has done its work, or stops already, ends with its own exit code.
//
//   INT               stop cleanly; a second one ends the program at once
//   TERM, HUP, USR1   save a checkpoint and exit with Exit::stopped (a server: drain and exit 0)
//   USR2              print state
#pragma once

#include <chrono>
#include <csignal>
#include <optional>

namespace mt {

enum class Signal : int {
  interrupt = SIGINT,
  terminate = SIGTERM,
  hangup = SIGHUP,  // of the terminal
  user1 = SIGUSR1,
  user2 = SIGUSR2,
  pipe = SIGPIPE,  // never held back: thrown by who writes to a pipe that nobody reads any more
};

const char* signal_name(Signal signal);  // "SIGINT"

class Signals {
 public:
  Signals();  // those that the parent had ignored (nohup, a shell's background job) stay ignored
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // One that has come since the last call, or nothing; waits for one no longer than `most`.
  std::optional<Signal> poll(std::chrono::nanoseconds most = {});

 private:
  sigset_t held_;
};

// Ends the program as the signal does, held back or not.
[[noreturn]] void end_by(Signal signal);

}  // namespace mt
