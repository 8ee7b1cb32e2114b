// Profile: how long a stream worked on operations of each family.  Every begin() and end() leaves a
// mark, on a GPU an event in the stream, and the time from one mark to the next belongs to the
// operation that was begun last and has not ended, or else to none: the stream then waited, for the
// host, for data or for other ranks.  A GPU's operations must not be captured meanwhile.
#pragma once

#include <chrono>
#include <vector>

#include "tensor/device.h"
#include "tensor/family.h"

namespace mt {

class Profile {
 public:
  explicit Profile(StreamHandle stream);  // null: of the CPU, by the clock
  Profile(const Profile&) = delete;
  Profile& operator=(const Profile&) = delete;
  ~Profile();

  void begin(Family family);
  void end();

  struct Seconds {
    PerFamily<double> families = {};
    double waiting = 0;
    double total() const;
  };
  // Since its making, or since the last stop(); on a GPU waits for what was queued.
  Seconds stop();

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kWaiting = kFamilies;
  struct Mark {
    std::size_t then;  // the family, or kWaiting, from now on
    Clock::time_point time = {};
    EventHandle event = nullptr;
  };
  void mark(std::size_t then);
  double between(const Mark& first, const Mark& second) const;

  StreamHandle stream_;
  std::vector<Mark> marks_;
  std::vector<std::size_t> begun_ = {kWaiting};  // operations that have not ended
  std::vector<EventHandle> unused_;
};

}  // namespace mt
