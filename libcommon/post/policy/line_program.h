// LineProgram: a program of others that reads lines and prints lines.  /bin/sh starts it anew each
// time that it is asked, so that it keeps nothing from one time to the next; it reads its standard
// input to the end.  Several copies of it may each have a part of the lines.  One that takes longer
// than it may, or prints too much, is killed with all that it has started, as is one that is asked
// when this process ends, however it does.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace mt {

// How it is run.
struct LineProgramOptions {
  double seconds = 60;  // that it may take
  int jobs = 1;         // copies of it
};

class LineProgram {
 public:
  // `option` names it in errors.  SIGPIPE must be ignored.
  LineProgram(std::string option, std::string command, const LineProgramOptions& options)
      : option_(std::move(option)), command_(std::move(command)), options_(options) {}

  // Gives it the lines, and each line that it prints, but blank ones, to `take`, which returns what
  // is wrong with that; empty: nothing.  Returns what was wrong first, with the program or else
  // with a line.  Once it has printed too much, no line is taken behind the first that is wrong,
  // and otherwise none behind a thousand of these; taking them has as much time as the program had.
  // Exit::out_of_memory where no process can be started.  Once `ends` says so, which is asked each
  // second, it is killed, and no more lines are taken.
  std::string ask(std::span<const std::string> lines,
                  const std::function<std::string(std::string_view line)>& take,
                  const std::function<bool()>& ends) const;

  std::string name() const { return option_ + " cmd:" + command_; }

 private:
  struct Printed;
  Printed run(const std::string& lines, const std::function<bool()>& ends) const;
  std::string take_lines(const Printed& printed,
                         const std::function<std::string(std::string_view line)>& take,
                         const std::function<bool()>& ends) const;

  std::string option_, command_;
  LineProgramOptions options_;
};

}  // namespace mt
