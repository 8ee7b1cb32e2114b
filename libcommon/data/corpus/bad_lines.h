// What happens to input lines that cannot be used: the run stops at the first, or they are counted,
// or counted and written to a file of their own (of a line that is too long to be read, its
// beginning).  Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/log.h"

namespace mt {

struct BadLine {
  std::int64_t number = 0;  // in its file, from 1
  std::string what;
  std::string_view line;  // without "\n"; into its block
};

class BadLines {
 public:
  // `policy`: "stop", "skip" or "quarantine=FILE", which is none of the `inputs`.
  BadLines(const std::string& policy, bool overwrite, const std::vector<std::string>& inputs,
           const Log& log, bool resumable = false);

  // How far a resumable one is: lines, and bytes of the quarantine file.
  struct State {
    std::int64_t count = 0, bytes = 0;
  };
  void save();  // all that was added is on the disk
  void resume(const State& state);
  const State& state() const { return state_; }
  static void undo_commit(const std::string& policy);
  static std::string quarantine_of(const std::string& policy);  // the file; empty: none

  // Throws Exit::bad_data, "FILE:LINE: what", when the policy is to stop.
  void add(const std::string& file, const BadLine& bad);
  void commit();  // the quarantine file gets its name

  std::int64_t count() const { return state_.count; }

 private:
  Log log_;
  bool stop_ = false;
  std::optional<AtomicFile> quarantine_;
  State state_;
};

}  // namespace mt
