#include "train/interruption.h"

namespace mt {

static constexpr std::array kEnding = {Signal::terminate, Signal::user1, Signal::interrupt};
static constexpr std::size_t kShowState = kEnding.size(), kTimeIsOver = kShowState + 1;
static_assert(kTimeIsOver + 1 == kRequests);

Interruption::~Interruption() {
  if (signal_ && limits_.signals != nullptr)
    while (limits_.signals->poll()) {
    }
}

Interruption::Requests Interruption::requests() {
  Requests own = {};
  std::optional<Signal> came;
  if (limits_.signals != nullptr) came = limits_.signals->poll();
  for (std::size_t i = 0; i < kEnding.size(); ++i) own[i] = came == kEnding[i] ? 1 : 0;
  if (ranks_.rank() != 0) return own;
  own[kShowState] = came == Signal::user2 ? 1 : 0;
  const std::chrono::duration<double> elapsed = Clock::now() - limits_.start;
  if (limits_.minutes) own[kTimeIsOver] = elapsed.count() > 60 * *limits_.minutes ? 1 : 0;
  return own;
}

void Interruption::take(const Requests& sums, const std::function<void()>& show_state) {
  for (std::size_t i = 0; i < kEnding.size(); ++i)
    if (sums[i] > 0 && !signal_) signal_ = kEnding[i];
  if (sums[kShowState] > 0) show_state();
  time_is_over_ = time_is_over_ || sums[kTimeIsOver] > 0;
}

bool Interruption::poll(const std::function<void()>& show_state) {
  Requests sums = requests();
  ranks_.all_reduce({sums.data(), DType::f64, {kRequests}}).wait();
  take(sums, show_state);
  return signal_ || time_is_over_;
}

}  // namespace mt
