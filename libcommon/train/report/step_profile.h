// --profile: where the time of some steps went, beside what the machine can do.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "tensor/profile.h"
#include "train/options/report_options.h"
#include "train/plan/machine.h"

namespace mt {

// Seconds that work takes at least: at the ceiling of its FLOPs or of its bytes.
double roof_seconds(const Cost& cost, const Ceilings& ceilings);

struct ProfileReport {
  int rank = 0;
  std::int64_t first = 0, last = 0;  // steps, from 1
  Profile::Seconds seconds = {};     // of all of them
  PerFamily<Cost> step = {};         // what one of them costs; 0 where steps differ in size
  Ceilings ceilings = {};            // of products those of --peak-tflops, if given
};

std::string profile_text(const ProfileReport& report);                // a table
void write_profile(const ProfileReport& report, JsonWriter& object);  // its members

// Follows the steps of one rank, and measures those that the options name.  The ceilings are
// measured when it is made.
class StepProfiler {
 public:
  // step: what each step costs, 0 where they differ.
  StepProfiler(const ReportOptions& options, DType dtype, const PerFamily<Cost>& step, int rank,
               Stream& stream);
  StepProfiler(const StepProfiler&) = delete;
  ~StepProfiler();

  // With how many steps are done.  Whether steps of any rank begin or end there to be measured:
  // every rank then waits for the step before, so that all take part in the same collectives.
  bool is_bound(std::int64_t done) const;
  // The report comes after the last of its steps; at_end() is of a run that ends among them.
  void before_step(std::int64_t done);
  std::optional<ProfileReport> after_step(std::int64_t done);
  std::optional<ProfileReport> at_end(std::int64_t done);

 private:
  const ReportOptions& options_;
  Stream& stream_;
  ProfileReport report_;
  bool wanted_ = false;
  std::optional<Profile> profile_;  // while it measures
};

}  // namespace mt
