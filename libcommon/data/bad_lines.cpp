#include "data/bad_lines.h"

#include <filesystem>

#include "base/error.h"

namespace mt {

BadLines::BadLines(const std::string& policy, bool overwrite,
                   const std::vector<std::string>& inputs, const Log& log)
    : log_(log) {
  constexpr std::string_view kQuarantine = "quarantine=";
  if (policy == "stop") {
    stop_ = true;
  } else if (policy.starts_with(kQuarantine) && policy.size() > kQuarantine.size()) {
    const std::string path = policy.substr(kQuarantine.size());
    std::error_code missing;
    for (const std::string& input : inputs)
      if (std::filesystem::equivalent(path, input, missing))
        fail(Exit::usage, "--on-error ", policy, ": is an input; expected another file");
    quarantine_.emplace(path, overwrite);
  } else if (policy != "skip") {
    fail(Exit::usage, "--on-error ", policy, ": expected stop, skip or quarantine=FILE");
  }
}

void BadLines::add(const std::string& file, const BadLine& bad) {
  const std::string text = concat(file, ":", bad.number, ": ", bad.what);
  if (stop_) fail(Exit::bad_data, text);
  ++count_;
  log_.detail(text);
  if (!quarantine_) return;
  quarantine_->write(bad.line);
  quarantine_->write("\n");
}

void BadLines::commit() {
  if (quarantine_) quarantine_->commit();
}

}  // namespace mt
