// GuessReport: prints how well texts or samples are guessed, with --json one after another and
// their sum at the end, else that alone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/json.h"
#include "eval/guesses.h"

namespace mt {

class GuessReport {
 public:
  using Print = std::function<void(const std::string&)>;
  GuessReport(std::string task, bool json, Print print)
      : task_(std::move(task)), json_(json), print_(std::move(print)) {}

  void put(const GuessScore& score);  // of the next one
  // Exit::bad_data, naming `input`, where there was nothing to guess.
  void finish(const std::string& input, const std::string& checkpoint, std::int64_t seq_length);

 private:
  JsonWriter begin() const;

  std::string task_;
  bool json_;
  Print print_;
  GuessScore total_;
  std::int64_t items_ = 0;
};

}  // namespace mt
