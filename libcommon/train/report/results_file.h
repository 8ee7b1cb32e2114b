// ResultsFile: what a finished run came to, one JSON object:
//   {"schema":"mt-results/1","step":…,"tokens":…,"seconds":…,"loss":…,"val_loss":…}
// The losses are those of the last step and of the last validation, and each further loss is there
// under its name, as in "val_sop_loss", as is what a task said of texts that it drew for that.
// Tokens are of all steps, seconds of those since the run was last started.  A task that has epochs
// adds what it said at the end of the last: of all of its sets, and of each under "sets".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "train/run/step_report.h"

namespace mt {

class ResultsFile {
 public:
  void step(const StepReport& report);
  void evaluation(const EvaluationReport& report);
  void drawn(const DrawnReport& report) { drawn_ = report.numbers; }
  void epoch(std::span<const EpochReport> reports);
  void write(const std::string& path, std::int64_t iteration) const;

 private:
  TermValues losses_, validation_;
  std::vector<std::pair<std::string, double>> drawn_;
  std::vector<EpochReport> epoch_;
  double tokens_ = 0, seconds_ = 0;
};

}  // namespace mt
