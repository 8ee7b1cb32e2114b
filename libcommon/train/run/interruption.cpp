#include "train/run/interruption.h"

#include <algorithm>
#include <utility>

#include "ops/ops.h"

namespace mt {

Interruption::Interruption(Group& ranks, const Limits& limits, Device device)
    : ranks_(ranks), limits_(limits) {
  constexpr std::size_t kBytes = sizeof(Requests);
  const bool read_late = device == Device::cuda;
  own_ = read_late ? Buffer::pinned(kBytes) : Buffer(Device::cpu, kBytes);
  std::ranges::fill(own_.tensor(DType::f64, {kRequests}).span<double>(), 0.0);
  if (limits.signals == nullptr) return;
  watches_ = read_late || limits.held;
  if (limits.came)
    limits.signals->answer([this](Signal signal) { limits_.came(signal, seconds_left()); });
  if (!watches_) return;
  watch_ = std::thread([this] {
    while (!ends_) {
      look_for_signals(std::chrono::milliseconds(10));
      look_at_clock();
    }
  });
}

Interruption::~Interruption() {
  if (limits_.signals != nullptr && limits_.came) limits_.signals->answer({});
  ends_ = true;
  if (watch_.joinable()) watch_.join();
}

// On a GPU the host queues one more step before it hears of a signal.
double Interruption::seconds_left() const {
  const std::chrono::duration<double> since = Clock::now() - ended_at_.load();
  const double last = last_step_, late = watches_ ? last : 0;
  return last > 0 ? std::max(last - since.count(), 0.0) + late : 0;
}

std::atomic_ref<double> Interruption::own(std::size_t request) const {
  return std::atomic_ref(static_cast<double*>(own_.data())[request]);
}

void Interruption::look_for_signals(std::chrono::nanoseconds most) {
  const std::optional<Signal> came = limits_.signals->poll(most);
  for (std::size_t i = 0; i < kEnding.size(); ++i)
    if (came == kEnding[i]) {
      own(i) += 1;
      if (!came_) came_ = came, came_at_ = waits_from_ = Clock::now();
    }
}

void Interruption::look_at_clock() {
  if (!came_ || !limits_.held) return;
  const Clock::time_point now = Clock::now();
  waits_from_ = limits_.is_in_step() ? std::max(waits_from_, ended_at_.load()) : now;
  const std::chrono::duration<double> patience = limits_.patience, longest(longest_step_);
  if (now - waits_from_ < std::max(patience, 2 * longest)) return;
  std::exchange(limits_.held, nullptr)(
      *came_, std::chrono::duration_cast<std::chrono::seconds>(now - came_at_), saved_);
}

void Interruption::step_ended(double seconds) {
  last_step_ = seconds;
  longest_step_ = std::max<double>(longest_step_, seconds);
  ended_at_ = Clock::now();
  saved_ = false;
}

Interruption::Requests Interruption::requests() {
  if (limits_.signals != nullptr && !watch_.joinable()) look_for_signals({});
  const std::chrono::duration<double> elapsed = Clock::now() - limits_.start;
  if (ranks_.rank() == 0 && limits_.minutes)
    own(kTimeIsOver) = elapsed.count() > 60 * *limits_.minutes ? 1 : 0;
  Requests all;
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = own(i);
  return all;
}

void Interruption::put_requests(Tensor into, Stream& stream) {
  const Requests now = requests();
  const bool read_late = into.device() == Device::cuda;
  transfer(into, ConstTensor(read_late ? own_.data() : now.data(), DType::f64, {kRequests}),
           stream);
}

void Interruption::take(const Requests& sums) {
  for (std::size_t i = 0; i < kEnding.size(); ++i)
    if (sums[i] > 0 && !signal_) signal_ = kEnding[i];
  time_is_over_ = sums[kTimeIsOver] > 0;
  written_ = sums[kWritten];
}

bool Interruption::poll() {
  Requests sums = requests();
  ranks_.all_reduce({sums.data(), DType::f64, {kRequests}}).wait();
  take(sums);
  return signal_ || time_is_over_;
}

bool Interruption::is_signalled() {
  const Requests own = requests();
  return std::any_of(own.begin(), own.begin() + kTimeIsOver,
                     [](double times) { return times > 0; });
}

}  // namespace mt
