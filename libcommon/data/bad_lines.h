// What happens to input lines that cannot be used: the run stops at the first, or they are counted,
// or counted and written to a file of their own.  Not thread-safe.
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
           const Log& log);

  // Throws Exit::bad_data, "FILE:LINE: what", when the policy is to stop.
  void add(const std::string& file, const BadLine& bad);
  void commit();  // the quarantine file gets its name

  std::int64_t count() const { return count_; }

 private:
  Log log_;
  bool stop_ = false;
  std::optional<AtomicFile> quarantine_;
  std::int64_t count_ = 0;
};

}  // namespace mt
