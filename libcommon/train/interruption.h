// Interruption: what ends a run before its last step: a signal, or --exit-duration-in-mins.  It is
// polled between two pieces of work, by all ranks together, so that they agree; what came stays.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "base/signals.h"
#include "comm/group.h"

namespace mt {

class Interruption {
 public:
  using Clock = std::chrono::steady_clock;

  struct Limits {
    Signals* signals = nullptr;     // on rank 0, and on all that are processes
    Clock::time_point start = {};   // of the run
    std::optional<double> minutes;  // after it
  };
  Interruption(Group& ranks, const Limits& limits) : ranks_(ranks), limits_(limits) {}
  Interruption(const Interruption&) = delete;
  ~Interruption();  // what ended the run may have come to each process

  // Asks all and tells all; true once the run is to end.  USR2 to rank 0 calls `show_state` on
  // every rank.
  bool poll(const std::function<void()>& show_state);

  const std::optional<Signal>& signal() const { return signal_; }  // INT, TERM or USR1
  bool time_is_over() const { return time_is_over_; }

 private:
  Group& ranks_;
  Limits limits_;
  std::optional<Signal> signal_;
  bool time_is_over_ = false;
};

}  // namespace mt
