// RewardProgram: a program of others that says what texts are worth, asked for the texts of each
// step (post/policy/line_program.h).  It reads a JSON object a line,
//   {"id":0,"prompt":text,"response":text,"answer":text or null,"truncated":bool,
//    "messages":[…] or null,"metadata":any or null}   that the prompt's line brings
// and prints, in any order,
//   {"id":0,"reward":number, or null where it has nothing to say of the text,
//                    or {name: number or null, …}, whose sum it is, as it is told by these names}
// A text of which it says nothing has no reward: because the program ended before, printed what is
// no such line, or took longer than it may, after which it is killed with all that it has started.
#pragma once

#include <string>

#include "post/policy/judge.h"
#include "post/policy/line_program.h"

namespace mt {

class RewardProgram final : public Judge {
 public:
  // SIGPIPE must be ignored.
  RewardProgram(std::string command, const LineProgramOptions& options)
      : program_("--reward", std::move(command), options) {}

  // Exit::out_of_memory where no process can be started.  One that is to end is killed.
  Verdict judge(std::span<const Response> responses,
                const std::function<bool()>& ends) const override;

 private:
  LineProgram program_;
};

}  // namespace mt
