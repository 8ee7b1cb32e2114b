// Interruption: what ends a run before its last step: a signal, or --exit-duration-in-mins.  Ranks
// make requests, and all that are made of any rank go to all, so that they agree: with the sums of
// a training step, which the host of a GPU reads when the next step has begun; or, within an
// evaluation, when it is polled.  What came stays.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <optional>

#include "base/signals.h"
#include "comm/group.h"
#include "kernels/update.h"

namespace mt {

class Interruption {
 public:
  using Clock = std::chrono::steady_clock;
  // TERM, USR1, INT, to show the state, and that the time is over: by how many ranks each.
  using Requests = std::array<double, kRequests>;

  struct Limits {
    Signals* signals = nullptr;     // on rank 0, and on all that are processes
    Clock::time_point start = {};   // of the run
    std::optional<double> minutes;  // after it
  };
  Interruption(Group& ranks, const Limits& limits) : ranks_(ranks), limits_(limits) {}
  Interruption(const Interruption&) = delete;
  ~Interruption();  // what ended the run may have come to each process

  // This rank's, since the last call.
  Requests requests();
  // The sums of all ranks' requests, the same on each.  USR2 to rank 0 calls `show_state` on every
  // rank.
  void take(const Requests& sums, const std::function<void()>& show_state);
  // Asks all and tells all; true once the run is to end.
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
