// What a program declares of its command line: verbs, options and positional arguments.
#include <strings.h>

#include <algorithm>
#include <stdexcept>

#include "base/command.h"

namespace mt {

using Kind = Option::Kind;

std::string CommandLine::verb(std::span<const Verb> verbs, std::string_view option) {
  for (const Verb& one : verbs) {
    if (arguments_.empty() || arguments_.front() != one.name) continue;
    arguments_.erase(arguments_.begin());
    return table_.verb = one.name;
  }
  if (!option.empty()) table_.verb = take_alias(verbs, option);
  if (table_.verb.empty()) table_.verbs.assign(verbs.begin(), verbs.end());
  return table_.verb;
}

// The verb that `--task NAME` or `--task=NAME` names, and takes these words away; "" without them.
std::string CommandLine::take_alias(std::span<const Verb> verbs, std::string_view option) {
  const auto names = [&](const std::string& word) {
    return word == option || word.starts_with(concat(option, "="));
  };
  const auto at = std::ranges::find_if(arguments_, names);
  if (at == arguments_.end()) return "";
  const bool apart = *at == option, has_value = !apart || at + 1 != arguments_.end();
  const std::string asked = !has_value ? "" : apart ? at[1] : at->substr(option.size() + 1);
  const auto one = std::ranges::find_if(
      verbs, [&](const Verb& verb) { return ::strcasecmp(verb.alias, asked.c_str()) == 0; });
  if (one == verbs.end() || asked.empty()) {
    std::string known;
    for (const Verb& verb : verbs)
      if (*verb.alias != '\0') known += concat(known.empty() ? "" : ", ", verb.alias);
    fail(Exit::usage, option, asked.empty() ? "" : " ", asked, ": expected ", known);
  }
  arguments_.erase(at, at + (apart ? 2 : 1));
  return one->name;
}

void CommandLine::describe(std::string_view summary, std::string_view details) {
  table_.summary = summary;
  table_.details = details;
}

void CommandLine::section(std::string_view title) { section_ = title; }

Option& CommandLine::declare(std::string_view names, Kind kind, OptionTarget target,
                             std::string_view help) {
  Option option;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(name.size() + 1, names.size()));
    if (table_.find(name) != nullptr) throw std::logic_error(concat(name, " is declared twice"));
    option.names.emplace_back(name);
  }
  option.kind = kind;
  option.target = target;
  option.help = help;
  option.section = section_;
  option.default_text = option.text();
  option.default_json = option.json();
  table_.options.push_back(std::move(option));
  return table_.options.back();
}

void CommandLine::option(std::string_view names, OptionTarget value, std::string_view metavar,
                         std::string_view help, Check check) {
  const bool list = std::holds_alternative<std::vector<std::string>*>(value) ||
                    std::holds_alternative<std::vector<std::int64_t>*>(value) ||
                    std::holds_alternative<std::vector<double>*>(value);
  Option& option = declare(names, list ? Kind::list : Kind::value, value, help);
  option.metavar = metavar;
  option.check = std::move(check);
  option.default_text = option.text();
  option.default_json = option.json();
}

void CommandLine::repeated(std::string_view names, std::vector<std::string>* values,
                           std::string_view metavar, std::string_view help) {
  option(names, values, metavar, help);
  table_.options.back().one_each = true;
}

void CommandLine::flag(std::string_view names, bool* value, std::string_view help) {
  declare(names, Kind::flag, value, help);
}
void CommandLine::off_switch(std::string_view names, bool* value, std::string_view help) {
  declare(names, Kind::off_switch, value, help);
}
void CommandLine::implied(std::string_view names, std::string_view why, OptionTarget type,
                          Check check) {
  declare(names, Kind::implied, type, why).check = std::move(check);
}
void CommandLine::refused(std::string_view names, std::string_view why, OptionTarget type,
                          Check check) {
  declare(names, Kind::refused, type, why).check = std::move(check);
}
void CommandLine::required(std::string_view name) {
  static_cast<void>(known(name));
  table_.find(name)->required = true;
}

void CommandLine::positional(std::string_view name, std::string* value, std::string_view help) {
  table_.positionals.push_back(
      {.name = std::string(name), .help = std::string(help), .value = value});
}
void CommandLine::optional_positional(std::string_view name, std::string* value,
                                      std::string_view help) {
  positional(name, value, help);
  table_.positionals.back().at_least = 0;
}
void CommandLine::positionals(std::string_view name, std::vector<std::string>* values,
                              std::string_view help, std::size_t at_least) {
  table_.positionals.push_back({.name = std::string(name),
                                .help = std::string(help),
                                .values = values,
                                .at_least = at_least});
}

// A flag of every program that is a question: it is asked on the command line alone.
static void make_question(Option& option, std::string bare, std::vector<std::string> choices) {
  option.early = option.command_line_only = true;
  option.bare = std::move(bare);
  option.check = one_of(std::move(choices));
}

void CommandLine::declare_common() {
  const std::size_t first = table_.options.size();
  section("Common options");
  make_question(declare("--usage,-h", Kind::flag, &short_help_, "show the options of a first run"),
                "true", {});
  make_question(declare("--help", Kind::flag, &help_,
                        "show all options, or with --help SECTION those of a section; --help=json "
                        "for programs"),
                "text", {"text", "json", "man", "words"});
  make_question(declare("--version", Kind::flag, &version_,
                        "show version, compiler and what the machine and this build can do"),
                "true", {});
  option("--completion", &completion_, "", "print a completion script for a shell",
         one_of({"bash", "zsh", "fish"}));
  table_.options.back().early = table_.options.back().command_line_only = true;
  option("--config", &config_, "FILE", "read options from FILE, an `option: value` a line");
  table_.options.back().early = true;
  make_question(declare("--print-config", Kind::flag, &print_config_,
                        "show every option's value and origin in the form of a config file; "
                        "--print-config=json for programs"),
                "yaml", {"yaml", "json"});
  flag("--quiet,-q", &quiet_, "say nothing but warnings and errors");
  declare("--verbose,-v", Kind::count, &verbose_, "say more; -vv still more");
  option("--color", &color_, "", "colour on the terminal", one_of({"auto", "always", "never"}));
  option("--log-format", &log_format_, "", "form of the lines on stderr, of errors too",
         one_of({"text", "json"}));
  option("--progress", &progress_, "",
         "a bar on a terminal, else a line every 30 s; json: all lines as JSON",
         one_of({"auto", "json", "none"}));
  for (std::size_t i = first; i < table_.options.size(); ++i) table_.options[i].common = true;
}

const Option& CommandLine::known(std::string_view name) const {
  for (const Option& option : table_.options)
    if (option.answers_to(name)) return option;
  throw std::logic_error(concat(name, " is not declared"));
}

}  // namespace mt
