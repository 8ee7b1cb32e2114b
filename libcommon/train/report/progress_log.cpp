#include "train/report/progress_log.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "train/report/megatron_log.h"

namespace mt {

ProgressLog::ProgressLog(const std::string& save_folder, int ranks, double flops_before)
    : path_(save_folder + "/progress.txt"), ranks_(ranks), flops_before_(flops_before) {
  append("Starting job");
}

void ProgressLog::append(const std::string& event) const {
  const char* job = std::getenv("SLURM_JOB_ID");
  File::append(path_).write(concat(timestamp(), "\tJob ID: ", job == nullptr ? "" : job,
                                   "\t# GPUs: ", ranks_, "\t", event, "\n"));
}

void ProgressLog::saved(const std::string& event, std::int64_t iteration, double flops,
                        double tokens) {
  const std::chrono::duration<double> elapsed = Clock::now() - start_;
  const ProgressStart start = progress_start(read_file(path_), ranks_);
  const double since = std::max(1.0, static_cast<double>(std::time(nullptr)) - start.seconds);
  const auto tflops = [&](double done, double seconds) { return done / (seconds * 1e12 * ranks_); };
  char text[256];
  std::snprintf(text, sizeof text,
                "%s\tIteration: %lld\tJob throughput: %.1f TFLOP/s/GPU\t"
                "Cumulative throughput: %.1f TFLOP/s/GPU\tFloating-point operations: %.2e\t"
                "Tokens (in billions): %.2f",
                event.c_str(), static_cast<long long>(iteration),
                tflops(flops - flops_before_, elapsed.count()), tflops(flops - start.flops, since),
                flops, tokens / 1e9);
  append(text);
}

static std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::istringstream stream(line);
  for (std::string field; std::getline(stream, field, '\t');) fields.push_back(field);
  return fields;
}

static double seconds_of(const std::string& text) {
  std::tm local = {};
  if (::strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &local) == nullptr) return 0;
  local.tm_isdst = -1;
  return static_cast<double>(std::mktime(&local));
}

ProgressStart progress_start(const std::string& content, int ranks) {
  static const std::string kDone = "Floating-point operations: ";
  ProgressStart start;
  double latest = 0;
  std::istringstream lines(content);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> fields = fields_of(line);
    if (fields.size() < 4) continue;
    if ((fields[3] == "Saved checkpoint" || fields[3] == "Saved async checkpoint") &&
        fields.size() > 7 && fields[7].starts_with(kDone))
      latest = std::strtod(fields[7].c_str() + kDone.size(), nullptr);
    if (fields[2] != concat("# GPUs: ", ranks))
      start = {};
    else if (fields[3] == "Starting job" && start.seconds == 0)
      start = {seconds_of(fields[0]), latest};
  }
  return start;
}

}  // namespace mt
