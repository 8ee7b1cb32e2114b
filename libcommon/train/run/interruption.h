// Interruption: what ends a run before its last step: a signal, or --exit-duration-in-mins; and
// what else ranks must agree on between steps.  Each rank counts what it was asked for, and the
// sums of all ranks' counts go to all: with the sums of a training step, or, where nothing is
// computed, when it is polled.  What came stays.
//
// On a GPU a thread waits for signals and counts them where the GPU reads them, at the end of a
// step: the host, which queues steps ahead, knows by that step's end, and one more is computed.
// The thread also sees that no step ends after a signal, as where another rank does not come to
// what this one's GPU waits in.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "base/signals.h"
#include "comm/group.h"
#include "kernels/update.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace mt {

class Interruption {
 public:
  using Clock = std::chrono::steady_clock;
  // TERM, USR1, INT, HUP, that the time is over, and checkpoints that were written: how often all
  // ranks were asked for each.
  using Requests = std::array<double, kRequests>;

  struct Limits {
    Signals* signals = nullptr;     // on rank 0, and on all that are processes
    Clock::time_point start = {};   // of the run
    std::optional<double> minutes;  // after it
    // Called at once with what comes, and the seconds until this step's end; 0: not known.
    std::function<void(Signal signal, double seconds)> came = {};
    // Where ranks are processes: whether the host queues a step or waits for it, and what is called
    // once, by another thread, when it has done nothing else for so long since a signal that ends
    // the run came, and twice as long as the longest step took, and no step has ended meanwhile.
    std::function<bool()> is_in_step = {};
    std::function<void(Signal signal, std::chrono::seconds since, bool saved)> held = {};
    std::chrono::milliseconds patience{20000};
  };
  Interruption(Group& ranks, const Limits& limits, Device device = Device::cpu);
  Interruption(const Interruption&) = delete;
  ~Interruption();

  Requests requests();  // this rank's until now
  // Puts these, or on a GPU those until it comes to that, into [kRequests] f64.
  void put_requests(Tensor into, Stream& stream);
  // This rank has written its part of one more checkpoint: from any thread.
  void count_written() { own(kWritten) += 1; }
  void take(const Requests& sums);  // of all ranks, the same on each
  bool poll();                      // asks all and tells all; true once the run is to end
  bool is_signalled();              // whether a signal came to this rank that poll() will tell all

  // A step has ended, after so many seconds: what was saved before is not all any more.
  void step_ended(double seconds);
  // All that has been computed is saved.
  void all_saved() { saved_ = true; }

  const std::optional<Signal>& signal() const { return signal_; }  // one of kEnding
  bool time_is_over() const { return time_is_over_; }
  // Whether every rank has written its parts of so many checkpoints.
  bool all_written(int checkpoints) const { return written_ == checkpoints * ranks_.size(); }

 private:
  static constexpr std::array kEnding = {Signal::terminate, Signal::user1, Signal::interrupt,
                                         Signal::hangup};
  static constexpr std::size_t kTimeIsOver = kEnding.size(), kWritten = kTimeIsOver + 1;
  static_assert(kWritten + 1 == kRequests);

  std::atomic_ref<double> own(std::size_t request) const;
  void look_for_signals(std::chrono::nanoseconds most);
  void look_at_clock();
  double seconds_left() const;

  Group& ranks_;
  Limits limits_;
  std::optional<Signal> signal_;
  bool time_is_over_ = false;
  double written_ = 0;
  Buffer own_;  // Requests
  std::atomic<bool> ends_ = false, saved_ = false;
  std::atomic<double> longest_step_ = 0, last_step_ = 0;           // seconds
  std::atomic<Clock::time_point> ended_at_ = Clock::time_point();  // the last step
  std::optional<Signal> came_;              // first of kEnding; of `watch_`, as the next
  Clock::time_point came_at_, waits_from_;  // waits_from_: for a step's end
  bool watches_ = false;                    // a thread does: `watch_`
  std::thread watch_;
};

}  // namespace mt
