// CommandLine: the option table of a program.  Each option is declared once, beside the code that
// reads it; parser, --help, man page, shell completion, environment and config file follow from
// that.
//
// An option's value comes from the command line, else the environment (MT_MICRO_BATCH_SIZE for
// --micro-batch-size; an empty variable counts as unset; a list is separated by blanks), else the
// file named by --config (`micro-batch-size: 4`, see option_config.h), else it stays what the
// variable held when it was declared.
//
// Every program also has -h, --help, --version, --completion, --config, --print-config, --quiet,
// --verbose, --color, --log-format and --progress.  Not thread-safe; no static state.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/activity.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/option.h"

namespace mt {

class CommandLine {
 public:
  CommandLine(std::string program, std::vector<std::string> arguments);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Consumes and returns the first argument if it is one of the verbs, else returns "", the default
  // verb.  Before any declaration.
  std::string verb(std::initializer_list<Verb> verbs) {
    return verb(std::span(verbs.begin(), verbs.size()));
  }
  // Where `option` is not empty, "--task" say, it may name the verb by its alias instead, anywhere
  // among the arguments: Exit::usage for a name that is none.
  std::string verb(std::span<const Verb> verbs, std::string_view option = {});

  // --- Declarations.  `names` is "--micro-batch-size" or "--workers,-j". ---

  // For --help and the man page: one sentence, then perhaps a longer text (an empty line
  // between paragraphs).
  void describe(std::string_view summary, std::string_view details = {});
  void first_run(std::vector<std::string> names) { table_.first = std::move(names); }  // for -h
  void section(std::string_view title);  // heading of the options that follow
  // `value` is a std::string, int, std::int64_t, std::uint64_t or double, a std::optional of those,
  // or a std::vector of std::string, std::int64_t or double.  It must outlive parse().
  void option(std::string_view names, OptionTarget value, std::string_view metavar,
              std::string_view help, Check check = {});
  // A list of which each value has an option of its own, `--image a.png --image b.png`, so that
  // what follows may be an argument.
  void repeated(std::string_view names, std::vector<std::string>* values, std::string_view metavar,
                std::string_view help);
  void flag(std::string_view names, bool* value, std::string_view help);        // sets true
  void off_switch(std::string_view names, bool* value, std::string_view help);  // sets false
  // A Megatron option whose effect always holds here: accepted, and --print-config says so.  `type`
  // is that of its value and `check` what the value must satisfy for that to be true.
  void implied(std::string_view names, std::string_view why, OptionTarget type = kNoValue,
               Check check = {});
  // A Megatron option that is not supported: giving it is an error that says why, unless it has a
  // type and the check accepts its value, which then asks for nothing (--num-x 0).
  void refused(std::string_view names, std::string_view why, OptionTarget type = kNoValue,
               Check check = {});
  // The man page that lists the implied and refused options; by default the program's own.
  void flags_page(std::string_view page) { table_.flags_page = page; }
  void required(std::string_view name);  // parse() fails unless `name` is given somewhere
  // Arguments that are not options, in order.  positionals() comes last and takes what is left.
  void positional(std::string_view name, std::string* value, std::string_view help = {});
  void optional_positional(std::string_view name, std::string* value, std::string_view help);
  void positionals(std::string_view name, std::vector<std::string>* values, std::string_view help,
                   std::size_t at_least);
  // parse() calls `then` when all values are set, before --print-config prints: the place to take
  // settings from a checkpoint with fallback().
  void before_print(std::function<void()> then) { before_print_ = std::move(then); }

  // What --version says of GPUs, asked for when it is printed.
  void gpu_version(std::function<std::string()> text) { gpu_version_ = std::move(text); }

  // Sets every variable.  A mistake throws Exit::usage (Exit::bad_config inside a config file) with
  // a line that names the option.  --help, --version, --completion and --print-config print on
  // stdout and end the program through a private exception, so nothing may run between parse() and
  // its caller that must not be skipped.
  void parse();

  // --- After parse(). ---

  bool given(std::string_view name) const;          // by command line, environment or config file
  std::string origin(std::string_view name) const;  // "command line", "default", ...
  // Sets an option that was not given, as from a checkpoint; `from` becomes its origin.  Throws
  // Exit::bad_config if the values do not fit it.
  void fallback(std::string_view name, const std::vector<std::string>& values,
                const std::string& from);
  // From now on the option was not given, so that fallback() sets it.
  void forget(std::string_view name);
  // Every option's value and origin but for those that all programs have, as one JSON object, for
  // manifests and run.jsonl: {"micro-batch-size":{"value":4,"origin":"command line"},...}
  void write_options(JsonWriter& json) const;
  const OptionTable& table() const { return table_; }
  const std::string& program() const { return table_.program; }
  const std::vector<std::string>& arguments() const { return all_arguments_; }  // as given
  // As --quiet, --verbose, --log-format ... ask for; before parse() only in what form.
  const Log& log() const { return log_; }
  void speaks_as(int rank);          // of several processes
  void tell_state() const;           // what the program is at, as USR2 asks
  bool color(int descriptor) const;  // may this descriptor be written to in colour?

 private:
  friend int run_command(const char*, int, char**, void (*)(CommandLine&));
  struct Finished {};  // thrown when --help and the like have been answered
  struct Setting {     // what one source says of one option
    Option* option;
    std::vector<std::string> texts;
    std::string origin;  // "command line"
    std::string where;   // for errors: "--seed x", "MT_SEED=x", "run.yaml:3: seed: x"
  };

  std::string take_alias(std::span<const Verb> verbs, std::string_view option);
  Option& declare(std::string_view names, Option::Kind kind, OptionTarget target,
                  std::string_view help);
  void declare_common();
  const Option& known(std::string_view name) const;
  std::vector<Setting> from_command_line(std::vector<std::string>& positional);
  std::vector<Setting> from_environment();
  std::vector<Setting> from_config_file();
  void apply(const std::vector<Setting>& settings, Option::Source source, bool only_early);
  void mark(const Option& option, Option::Source source, const std::string& origin);
  void take_positionals(const std::vector<std::string>& given);
  void check_required() const;
  bool wants_json_lines() const;
  void open_log(Log::Settings settings);
  void answer_questions(const std::vector<std::string>& positional) const;
  void answer_help(const std::vector<std::string>& positional) const;
  void answer_nothing() const;
  void answer_print_config() const;
  [[noreturn]] static void answer(const std::string& text);

  OptionTable table_;
  std::string section_;
  std::vector<std::string> arguments_, all_arguments_;
  std::function<void()> before_print_;
  std::function<std::string()> gpu_version_;
  std::string help_, completion_, config_, print_config_;
  std::string color_ = "auto", log_format_ = "text", progress_ = "auto";
  bool version_ = false, quiet_ = false, short_help_ = false;
  int verbose_ = 0;
  std::shared_ptr<Activities> activities_;
  Log log_;
};

// The body of main(): runs `run` and returns the exit code.  What it throws becomes one line on
// stderr, "mt-convert: in.bin: 3 bytes, expected at least 8"; stdout is flushed, and a failure of
// that is Exit::io_error.  A closed pipe ends the program quietly, by SIGPIPE.
int run_command(const char* program, int argc, char** argv, void (*run)(CommandLine&));

std::string version_text(const std::string& program);  // what --version prints

}  // namespace mt
