#include "data/corpus/bad_lines.h"

#include <filesystem>

#include "base/error.h"

namespace mt {

constexpr std::string_view kQuarantine = "quarantine=";

BadLines::BadLines(const std::string& policy, bool overwrite,
                   const std::vector<std::string>& inputs, const Log& log, bool resumable)
    : log_(log) {
  if (policy == "stop") {
    stop_ = true;
  } else if (const std::string path = quarantine_of(policy); !path.empty()) {
    std::error_code missing;
    for (const std::string& input : inputs)
      if (std::filesystem::equivalent(path, input, missing))
        fail(Exit::usage, "--on-error ", policy, ": is an input; expected another file");
    quarantine_.emplace(path, overwrite, resumable);
  } else if (policy != "skip") {
    fail(Exit::usage, "--on-error ", policy, ": expected stop, skip or quarantine=FILE");
  }
}

void BadLines::add(const std::string& file, const BadLine& bad) {
  const std::string text = concat(file, ":", bad.number, ": ", bad.what);
  if (stop_) fail(Exit::bad_data, text);
  ++state_.count;
  log_.detail(text);
  if (!quarantine_) return;
  quarantine_->write(bad.line);
  quarantine_->write("\n");
  state_.bytes += static_cast<std::int64_t>(bad.line.size()) + 1;
}

void BadLines::save() {
  if (quarantine_) quarantine_->sync();
}

void BadLines::resume(const State& state) {
  state_ = state;
  if (quarantine_) quarantine_->cut(static_cast<std::uint64_t>(state.bytes));
}

void BadLines::undo_commit(const std::string& policy) {
  if (const std::string path = quarantine_of(policy); !path.empty()) mt::undo_commit(path);
}

std::string BadLines::quarantine_of(const std::string& policy) {
  return policy.starts_with(kQuarantine) ? policy.substr(kQuarantine.size()) : "";
}

void BadLines::commit() {
  if (quarantine_) quarantine_->commit();
}

}  // namespace mt
