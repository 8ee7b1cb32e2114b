// ProgressLog: SAVE/progress.txt as Megatron-LM's --log-progress writes it, a line for the start of
// each job and for each checkpoint, fields separated by tabs:
//   2026-08-22 15:04:05  Job ID: 123  # GPUs: 8  Starting job
//   …  Saved checkpoint  Iteration: 500  Job throughput: 1.2 TFLOP/s/GPU
//      Cumulative throughput: 1.1 TFLOP/s/GPU  Floating-point operations: 1.86e+16
//      Tokens (in billions): 0.52
// The job's id is SLURM_JOB_ID; a GPU is a rank.  The cumulative throughput is that since the first
// job of so many ranks, by the lines that stand there.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace mt {

class ProgressLog {
 public:
  // The job starts here, with so many floating-point operations already done.
  ProgressLog(const std::string& save_folder, int ranks, double flops_before);

  // `event`: Saved checkpoint, Saving async checkpoint or Saved async checkpoint.
  void saved(const std::string& event, std::int64_t iteration, double flops, double tokens);

 private:
  using Clock = std::chrono::steady_clock;
  void append(const std::string& event) const;

  std::string path_;
  int ranks_;
  double flops_before_;
  Clock::time_point start_ = Clock::now();
};

// What progress.txt knows of the jobs of `ranks` ranks since the last of another number: when the
// first started, in seconds since 1970, and the operations done before it.  Lines of other forms
// are passed over.
struct ProgressStart {
  double seconds = 0, flops = 0;
};
ProgressStart progress_start(const std::string& content, int ranks);

}  // namespace mt
