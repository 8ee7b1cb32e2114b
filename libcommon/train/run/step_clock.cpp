#include "train/run/step_clock.h"

namespace mt {

StepClock::StepClock(Device device, Clock::time_point (*now)()) : now_(now) {
  if (device != Device::cuda) return;
  for (Step& step : steps_)
    for (Mark* mark : {&step.begin, &step.end}) mark->event = device::make_timer();
}

StepClock::~StepClock() {
  for (const Step& step : steps_)
    for (const Mark* mark : {&step.begin, &step.end})
      if (mark->event != nullptr) device::destroy_event(mark->event);
}

void StepClock::set(Mark& mark, Stream& stream) const {
  mark.event != nullptr ? device::record(mark.event, stream.handle()) : void(mark.time = now_());
}

void StepClock::begin(Stream& stream) {
  Step& next = step(ended_);
  next.follows = ended_ > told_;
  set(next.begin, stream);
}

void StepClock::end(Stream& stream) { set(step(ended_++).end, stream); }

double StepClock::seconds(Stream& stream) {
  const Step& last = step(told_);
  const Mark& from = last.follows ? step(told_ + steps_.size() - 1).end : last.begin;
  ++told_;
  if (last.end.event == nullptr)
    return std::chrono::duration<double>(last.end.time - from.time).count();
  stream.wait(last.end.event);
  return device::seconds_between(from.event, last.end.event);
}

}  // namespace mt
