// The curves of a training run, read from its run log (run_log.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

struct Curve {
  std::map<std::int64_t, double> steps;       // by iteration: a resumed run's later lines count
  std::map<std::int64_t, double> validation;  // of the loss
};

// Takes a log line by line.  A metric is a member of its steps, or one of an array:
// "expert_loads.3" is the fourth.  Lines of other events are passed over; what is not JSON, not of
// the schema mt-pretrain/1, or has no number where one belongs is Exit::bad_data with the line's
// number.
class RunCurves {
 public:
  RunCurves(std::string name, const std::vector<std::string>& metrics);

  void take(std::string_view line);

  const std::string& name() const { return name_; }
  const Curve& of(const std::string& metric) const { return curves_.at(metric); }

 private:
  std::string name_;
  std::int64_t lines_ = 0;
  std::map<std::string, Curve> curves_;
};

}  // namespace mt
