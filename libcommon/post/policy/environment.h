// EnvironmentProgram: a program of others that answers what a policy says, so that a text has
// several turns: it is asked for all texts that go on, after each of their turns
// (post/policy/line_program.h).  It reads a JSON object a line,
//   {"id":0,"turn":0,"prompt":text,"messages":[{"role":…,"content":…},…],"response":text,
//    "answer":text or null,"truncated":bool,"metadata":any or null}
// where messages are what was said behind the prompt before this response, and prints, in any
// order,
//   {"id":0,"observation"?:{"role":text,"content":text} or text,"done"?:bool,
//    "reward"?:number or {name:number,…},"metadata"?:any,"stop"?:[text,…]}
// A text goes on with an observation, unless it is done; one that is a text alone is a user's.
// Metadata are those of the prompt's line in the first turn, and come back with the next turn of
// the text, if there is one.  That turn ends behind one of the texts of stop, where these are said.
// A line has one of reward, observation and done at least; what is null is as if it were not there.
// A text's reward is the sum of what its turns are worth, each 0 where none is said.  A text of
// which the program says nothing, because it ended before, printed what is no such line, or took
// longer than it may, ends there, and has no reward.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "post/policy/line_program.h"
#include "post/policy/rewards.h"

namespace mt {

struct PolicyPrompt;

class EnvironmentProgram {
 public:
  struct Said {
    std::string role, content;
  };
  // A text so far, and what it goes on with.
  struct Dialogue {
    const PolicyPrompt* prompt = nullptr;
    std::int64_t turn = 0;            // of the response, from 0
    std::vector<Said> messages = {};  // behind the prompt, before the response
    std::string response = {};
    bool truncated = false;
    std::string metadata = "null";  // JSON
    // Texts behind which the response ends; none: those of all responses.
    std::optional<std::vector<std::string>> stop = {};
    double reward = 0;        // NaN: there is none
    NamedRewards named = {};  // what it is the sum of, where that is said
  };
  struct Answers {
    std::vector<bool> go_on = {};  // of each text
    std::string wrong = {};        // what was wrong with the program; empty: nothing
  };

  // SIGPIPE must be ignored.
  EnvironmentProgram(std::string command, const LineProgramOptions& options)
      : program_("--environment", std::move(command), options) {}

  // Adds to the rewards, and gives each that goes on two messages more, its response and the
  // observation.
  Answers answer(std::span<Dialogue* const> dialogues, const std::function<bool()>& ends) const;
  std::string name() const { return program_.name(); }

 private:
  LineProgram program_;
};

}  // namespace mt
