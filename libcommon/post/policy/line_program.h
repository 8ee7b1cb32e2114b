// LineProgram: a program of others that reads lines and prints lines.  /bin/sh starts it anew each
// time that it is asked, so that it keeps nothing from one time to the next; it reads its standard
// input to the end.  One that takes longer than it may, or prints too much, is killed with all that
// it has started, as is one that is asked when this process ends, however it does.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace mt {

class LineProgram {
 public:
  // `option` names it in errors.  SIGPIPE must be ignored.
  LineProgram(std::string option, std::string command, double seconds)
      : option_(std::move(option)), command_(std::move(command)), seconds_(seconds) {}

  // Gives it the lines, and each line that it prints, but blank ones, to `take`, which returns what
  // is wrong with that; empty: nothing.  Returns what was wrong first, with the program or else
  // with a line.  Once it has printed too much, no line is taken behind the first that is wrong,
  // and otherwise none behind a thousand of these; taking them has as much time as the program had.
  // Exit::out_of_memory where no process can be started.  Once `ends` says so, which is asked each
  // second, it is killed, and no more lines are taken.
  std::string ask(std::string_view lines,
                  const std::function<std::string(std::string_view line)>& take,
                  const std::function<bool()>& ends) const;

  std::string name() const { return option_ + " cmd:" + command_; }

 private:
  std::string option_, command_;
  double seconds_;
};

}  // namespace mt
