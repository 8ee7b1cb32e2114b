// Timers: seconds spent in the parts of a training step, added up until somebody reports them.
// Names, levels and order are Megatron's (core_v0.12.1: core/timers.py, training_log); a part above
// the level that was asked for is not measured.  One object for each rank; not thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace mt {

enum class Timed : std::size_t {
  forward_backward,
  forward_compute,
  backward_compute,
  batch_generator,
  forward_recv,
  forward_send,
  backward_recv,
  backward_send,
  optimizer,
};
struct TimedPart {
  const char* name;
  int level;
};
inline constexpr std::array<TimedPart, 9> kTimedParts = {{{"forward-backward", 1},
                                                          {"forward-compute", 2},
                                                          {"backward-compute", 2},
                                                          {"batch-generator", 2},
                                                          {"forward-recv", 2},
                                                          {"forward-send", 2},
                                                          {"backward-recv", 2},
                                                          {"backward-send", 2},
                                                          {"optimizer", 1}}};

class Timers {
 public:
  using Seconds = std::array<double, kTimedParts.size()>;

  explicit Timers(int level = 0) : level_(level) {}

  // Runs from its making to its end.
  class Scope {
   public:
    explicit Scope(double* seconds) : seconds_(seconds) {
      if (seconds != nullptr) start_ = Clock::now();
    }
    Scope(const Scope&) = delete;
    ~Scope() {
      if (seconds_ != nullptr)
        *seconds_ += std::chrono::duration<double>(Clock::now() - start_).count();
    }

   private:
    using Clock = std::chrono::steady_clock;
    double* seconds_;
    Clock::time_point start_;
  };
  [[nodiscard]] Scope measure(Timed part) {
    const auto i = static_cast<std::size_t>(part);
    return Scope(kTimedParts[i].level <= level_ ? &seconds_[i] : nullptr);
  }

  bool measures() const { return level_ > 0; }         // any part
  const Seconds& seconds() const { return seconds_; }  // 0: not measured
  void reset() { seconds_ = {}; }

 private:
  int level_;
  Seconds seconds_ = {};
};

}  // namespace mt
