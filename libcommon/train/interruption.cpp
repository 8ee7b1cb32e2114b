#include "train/interruption.h"

namespace mt {

Interruption::~Interruption() {
  if (signal_ && limits_.signals != nullptr)
    while (limits_.signals->poll()) {
    }
}

bool Interruption::poll(const std::function<void()>& show_state) {
  double message[3] = {0, 0, 0};  // a signal's number, whether to show the state, time is over
  const std::optional<Signal> came =
      limits_.signals != nullptr ? limits_.signals->poll() : std::nullopt;
  if (came && *came != Signal::user2)
    message[0] = static_cast<double>(static_cast<int>(*came));
  else if (came && ranks_.rank() == 0)
    message[1] = 1;
  if (limits_.minutes && ranks_.rank() == 0) {
    const std::chrono::duration<double> elapsed = Clock::now() - limits_.start;
    message[2] = elapsed.count() > 60 * *limits_.minutes ? 1 : 0;
  }
  ranks_.all_reduce({message, DType::f64, {3}}, Reduction::max).wait();
  if (message[0] != 0 && !signal_) signal_ = static_cast<Signal>(static_cast<int>(message[0]));
  if (message[1] != 0) show_state();
  time_is_over_ = time_is_over_ || message[2] != 0;
  return signal_ || time_is_over_;
}

}  // namespace mt
