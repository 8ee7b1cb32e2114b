// Option: one row of a program's option table (base/command.h), and how the text of a value becomes
// the value of a variable and back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace mt {

// What a value must satisfy; of a list, each element.  An empty Check is always satisfied.
struct Check {
  std::optional<double> low = {}, high = {};  // bounds, inclusive unless `above_low`
  bool above_low = false;                     // low itself is refused
  std::vector<std::string> choices = {};      // the only texts accepted, if not empty
  bool allows(double number) const;           // NaN and infinities never
  bool allows(const std::string& text) const;
  std::string expected() const;  // "at least 1", "auto, always or never"; empty for an empty Check
};
Check at_least(double low);
Check greater_than(double low);
Check between(double low, double high);  // both ends included
Check one_of(std::vector<std::string> choices);

// The variable behind an option.  A list takes several values (`--json-keys a b`), may be repeated,
// and is replaced, not extended, by a source of higher precedence.
using OptionTarget =
    std::variant<bool*, std::string*, int*, std::int64_t*, std::uint64_t*, double*,
                 std::vector<std::string>*, std::vector<std::int64_t>*, std::vector<double>*,
                 std::optional<std::string>*, std::optional<int>*, std::optional<std::int64_t>*,
                 std::optional<std::uint64_t>*, std::optional<double>*>;

// Types of the values that an implied or refused option takes: it has no variable.
inline constexpr bool* kNoValue = nullptr;
inline constexpr std::int64_t* kInteger = nullptr;
inline constexpr double* kNumber = nullptr;
inline constexpr std::string* kText = nullptr;
inline constexpr std::vector<std::int64_t>* kIntegers = nullptr;
inline constexpr std::vector<std::string>* kTexts = nullptr;

struct Option {
  // An off-switch is Megatron's --no-x: `true` for it sets its variable to false.  A count is a
  // flag that may be repeated.  Implied and refused options have no variable, only `accepted`.
  enum class Kind { value, list, flag, off_switch, count, implied, refused };
  enum class Source { fallback, config, environment, command_line };  // rising precedence

  std::vector<std::string> names;  // with their dashes; the first is a long one
  Kind kind = Kind::value;
  OptionTarget target;
  std::string metavar, section;
  std::string
      help;  // its first line for --help, all of it for the man page; why, if implied or refused
  Check check;
  std::string bare = "true";      // the value when given as `--x`, for options without Kind::value
  std::string default_text = "";  // text() and json() as they were when the option was declared
  std::string default_json = "null";
  bool required = false;
  bool common = false;             // every program has it
  bool command_line_only = false;  // not to be set by environment or config file
  bool one_each = false;           // a list, of which each value is given by itself
  bool early = false;              // set before the config file is read
  Source source = Source::fallback;
  std::string origin = "default";     // "command line", "environment MT_X", "config run.yaml:3"
  std::vector<std::string> accepted;  // what an implied or refused option was given

  const std::string& name() const { return names.front(); }
  std::string key() const { return name().substr(2); }  // in a config file: micro-batch-size
  std::string variable() const;                         // in the environment: MT_MICRO_BATCH_SIZE
  bool answers_to(std::string_view name) const;
  bool has_variable() const { return kind != Kind::implied && kind != Kind::refused; }
  bool given() const { return source != Source::fallback; }
  bool takes_value() const;
  bool takes_list() const;
  std::string type() const;  // "integer", "number", "string" or "boolean"
  bool unset() const;        // an empty std::optional, or a number that its own check refuses
  // "an integer, at least 1"; with the type's range if that is what refused texts are outside of.
  std::string expected(const std::vector<std::string>& refused = {}) const;

  // Replaces the variable's value, or what was accepted.  False if the texts are not as expected():
  // the whole of each text must be a number within the type's range and the check.  A list takes
  // any count, others one text.
  bool assign(const std::vector<std::string>& texts);
  std::vector<std::string> texts() const;  // what assign() would restore the value from
  std::string text() const;                // the value for people: "4", "a b", "true", ""
  std::string json() const;                // and for programs; null if unset
};

// `mt-preprocess NAME …`: what else the program does.
struct Verb {
  const char* name;
  const char* help;
  const char* alias = "";  // how CommandLine::verb()'s option names it, in any case
};

// An argument that is not an option.
struct Positional {
  std::string name, help;
  std::string* value = nullptr;                // one of the two
  std::vector<std::string>* values = nullptr;  // takes all that are left
  std::size_t at_least = 1;
};

// All that a program, or a verb of one, says about its command line.
struct OptionTable {
  std::string program, verb, summary, details;
  std::string flags_page;  // "mt-flags(7)" if that lists the implied and refused options
  std::vector<Verb> verbs;
  std::vector<std::string> first;  // options of a first run, for -h
  std::vector<Option> options;
  std::vector<Positional> positionals;

  std::string invocation() const { return verb.empty() ? program : program + " " + verb; }
  Option* find(std::string_view name);  // null if there is none
  // "; did you mean --micro-batch-size?", or nothing when no supported name is near.  `name` may
  // come without dashes; the answer then does too.
  std::string did_you_mean(std::string_view name) const;
};

// The text nearest to `text` among `candidates` by insertions, deletions, replacements and swaps of
// neighbours; empty if none is within a third of its length.
std::string nearest(std::string_view text, const std::vector<std::string>& candidates);

}  // namespace mt
