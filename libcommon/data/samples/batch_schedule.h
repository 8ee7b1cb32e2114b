// BatchSchedule: how many sequences a step takes, as a function of the samples consumed before it
// (Megatron-LM: core_v0.12.1, core/num_microbatches_calculator.py; step schedules: main).
//   constant   G
//   ramp-up    start + int(c / per) increment while c <= samples, then G;
//              per = samples / ((G - start) / increment), f64
//   steps      the size of the last threshold that is <= c; G is the last size
// One calculator for the steps themselves, for the length of a run and for its plan.  Sizes are in
// sequences over all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mt {

class BatchSchedule {
 public:
  explicit BatchSchedule(std::int64_t global_batch_size = 1) : final_(global_batch_size) {}
  // `rampup`: start, increment, samples.  Exit::bad_config where these and the size do not fit.
  BatchSchedule(std::int64_t global_batch_size, const std::vector<std::int64_t>& rampup);
  // "0:768 250B:1536": thresholds in tokens of sequences of `seq_length`, with K, M, B or T for
  // thousands and so on.
  static BatchSchedule by_tokens(const std::string& text, std::int64_t seq_length);

  std::int64_t at(std::int64_t consumed) const;
  std::int64_t final_size() const { return final_; }
  bool changes() const { return increment_ > 0 || !steps_.empty(); }
  // The sizes of all steps after `consumed` samples, each once, ascending or as the steps say.
  std::vector<std::int64_t> sizes_from(std::int64_t consumed) const;
  // Steps of a run of `samples`.  What is left short of a batch at its end is dropped, but the last
  // step of a ramp-up or of a step schedule may go beyond it, as Megatron's does.
  std::int64_t iterations(std::int64_t samples) const;

 private:
  std::int64_t more_alike(std::int64_t consumed, std::int64_t last) const;
  struct Step {
    std::int64_t from = 0, size = 0;  // samples consumed before it
  };
  std::int64_t final_;
  std::int64_t start_ = 0, increment_ = 0, rampup_samples_ = 0;  // increment_ 0: no ramp-up
  double samples_per_increment_ = 0;
  std::vector<Step> steps_;  // ascending; empty: no step schedule
};

}  // namespace mt
