#include "train/interruption.h"

namespace mt {

bool Interruption::poll(const std::function<void()>& show_state) {
  double message[2] = {0, 0};  // signal number or 0, whether time is over
  if (ranks_.rank() == 0) {
    const std::optional<Signal> signal =
        limits_.signals != nullptr ? limits_.signals->poll() : std::nullopt;
    if (signal) message[0] = static_cast<double>(static_cast<int>(*signal));
    const std::chrono::duration<double> elapsed = Clock::now() - limits_.start;
    message[1] = limits_.minutes && elapsed.count() > 60 * *limits_.minutes ? 1 : 0;
  }
  ranks_.broadcast({message, DType::f64, {2}}, 0).wait();
  const auto signal = static_cast<Signal>(static_cast<int>(message[0]));
  if (signal == Signal::user2)
    show_state();
  else if (message[0] != 0 && !signal_)
    signal_ = signal;
  time_is_over_ = time_is_over_ || message[1] != 0;
  return signal_ || time_is_over_;
}

}  // namespace mt
