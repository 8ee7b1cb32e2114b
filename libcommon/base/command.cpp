#include "base/command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/file.h"
#include "base/input/byte_order_mark.h"
#include "base/input/line_reader.h"
#include "base/option_config.h"
#include "base/option_environment.h"
#include "base/option_help.h"
#include "base/option_parser.h"

namespace mt {

using Kind = Option::Kind;
using Source = Option::Source;

CommandLine::CommandLine(std::string program, std::vector<std::string> arguments)
    : arguments_(arguments),
      all_arguments_(std::move(arguments)),
      activities_(std::make_shared<Activities>()) {
  table_.program = std::move(program);
  open_log({.format = wants_json_lines() ? Log::Format::json : Log::Format::text});
}

// Whether the lines of stderr are to be JSON, as far as can be told before anything is parsed: a
// mistake in what is, is an event too.
bool CommandLine::wants_json_lines() const {
  for (const std::string name : {"log-format", "progress"}) {
    const auto variable = std::getenv(name == "progress" ? "MT_PROGRESS" : "MT_LOG_FORMAT");
    if (variable != nullptr && std::string_view(variable) == "json") return true;
    const auto at = std::ranges::find(all_arguments_, "--" + name);
    if (at != all_arguments_.end() && at + 1 != all_arguments_.end() && *(at + 1) == "json")
      return true;
    if (std::ranges::count(all_arguments_, "--" + name + "=json") > 0) return true;
  }
  return false;
}

void CommandLine::speaks_as(int rank) { open_log(log_.for_rank(rank).settings()); }
void CommandLine::tell_state() const { activities_->tell(); }

// --- Sources. ---

static std::string shown(const std::string& text) { return text.empty() ? "\"\"" : text; }

// The option's name on the command line, of those that it answers to, where it stands there by
// itself; of several the last.
static std::string name_given(const Option& option, const std::vector<std::string>& arguments) {
  std::string given = option.name();
  for (const std::string& argument : arguments) {
    if (argument == "--") break;
    const std::string name = argument.substr(0, argument.find('='));
    if (option.answers_to(name)) given = name;
  }
  return given;
}

std::vector<CommandLine::Setting> CommandLine::from_command_line(
    std::vector<std::string>& positional) {
  ParsedArguments parsed = parse_arguments(table_, arguments_);
  positional = std::move(parsed.positional);
  std::vector<Setting> settings;
  std::map<const Option*, std::size_t> gathered;  // lists and counts: where their one setting is
  for (const auto& [option, text] : parsed.options) {
    const bool gathers = option->takes_list() || option->kind == Kind::count;
    if (option->kind == Kind::count && text != option->bare)
      fail(Exit::usage, name_given(*option, arguments_), "=", text,
           ": takes no value; repeat it instead");
    const auto [at, is_new] = gathered.try_emplace(option, settings.size());
    if (gathers && !is_new) {
      settings[at->second].texts.push_back(text);
      settings[at->second].where += " " + shown(text);
      continue;
    }
    const std::string name = name_given(*option, arguments_);
    const std::string where = option->takes_value()
                                  ? name + " " + shown(text)
                                  : name + (text == option->bare ? "" : "=" + text);
    settings.push_back({option, {text}, "command line", where});
  }
  for (Setting& setting : settings)
    if (setting.option->kind == Kind::count) setting.texts = {std::to_string(setting.texts.size())};
  return settings;
}

// The words of a list in the environment, or the list that it is in a config file's notation; of
// one whose values are given each by itself, the one.
static std::vector<std::string> list_of(const Option& option, const std::string& text,
                                        const std::string& where) {
  if (text.starts_with("[")) return parse_config_value(text, where).values;
  if (option.one_each) return {text};
  std::vector<std::string> words;
  for (std::size_t at = 0; (at = text.find_first_not_of(" \t\n", at)) != text.npos;) {
    const std::size_t end = std::min(text.find_first_of(" \t\n", at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<CommandLine::Setting> CommandLine::from_environment() {
  std::vector<Setting> settings;
  for (Option& option : table_.options) {
    const std::string variable = option.variable();
    const char* const value = std::getenv(variable.c_str());
    if (option.command_line_only || value == nullptr || *value == '\0') continue;
    const std::string text = value, where = concat(variable, "=", text);
    settings.push_back({&option,
                        option.takes_list() ? list_of(option, text, where) : std::vector{text},
                        "environment " + variable, where});
  }
  return settings;
}

std::vector<CommandLine::Setting> CommandLine::from_config_file() {
  std::vector<Setting> settings;
  if (config_.empty()) return settings;
  refuse_terminal(config_);
  const std::string content = read_file(config_);
  const std::string_view text = std::string_view(content).substr(byte_order_mark(content, config_));
  std::map<const Option*, std::pair<std::string, int>> earlier;  // by which name, in which line
  for (ConfigEntry& entry : parse_config(text, config_)) {
    const std::string place = concat(config_, ":", entry.line), where = place + ": " + entry.key;
    Option* const option = table_.find("--" + entry.key);
    if (option == nullptr) {
      const std::size_t dashes = std::min(entry.key.find_first_not_of('-'), entry.key.size());
      fail(Exit::bad_config, where, ": no such option",
           table_.did_you_mean(entry.key.substr(dashes)));
    }
    const auto [known, is_new] = earlier.try_emplace(option, entry.key, entry.line);
    if (!is_new)
      fail(Exit::bad_config, where, ": given as ", known->second.first, " in line ",
           known->second.second, " already");
    if (option->early) fail(Exit::bad_config, where, ": not an option of a config file");
    if (entry.list && !option->takes_list())
      fail(Exit::bad_config, where, ": a list; expected ", option->expected());
    settings.push_back(
        {option, std::move(entry.values), "config " + place, where + ": " + entry.written});
  }
  return settings;
}

// What an implied or refused option is given must ask for nothing but what holds anyway.
static void accept(Option& option, const std::vector<std::string>& texts, Exit code,
                   const std::string& where) {
  if (option.takes_value()) {
    if (option.assign(texts)) return;
    if (option.kind == Kind::implied)
      fail(code, where, ": expected ", option.expected(texts), "; ", option.help);
  }
  if (option.kind == Kind::refused) fail(code, where, ": not supported: ", option.help);
  if (texts.front() != "true") fail(code, where, ": always on: ", option.help);
  option.accepted = texts;
}

void CommandLine::apply(const std::vector<Setting>& settings, Source source, bool only_early) {
  const Exit code = source == Source::config ? Exit::bad_config : Exit::usage;
  for (const auto& [option, texts, origin, where] : settings) {
    if (only_early && !option->early) continue;
    if (!option->has_variable()) {
      accept(*option, texts, code, where);
    } else if (!option->assign(texts)) {
      fail(code, where, ": expected ", option->expected(texts));
    }
    mark(*option, source, origin);
  }
}

// Notes where the value comes from, for all options that share the variable (--x and --no-x).
void CommandLine::mark(const Option& changed, Source source, const std::string& origin) {
  for (Option& option : table_.options) {
    const bool shared = option.has_variable() && option.target == changed.target;
    if (&option != &changed && !shared) continue;
    option.source = source;
    option.origin = origin;
  }
}

void CommandLine::take_positionals(const std::vector<std::string>& given) {
  std::size_t next = 0;
  for (const Positional& positional : table_.positionals) {
    const std::size_t left = given.size() - next;
    const std::size_t taken = positional.values != nullptr ? left : std::min<std::size_t>(left, 1);
    if (taken < positional.at_least && print_config_.empty())
      fail(Exit::usage, positional.name, ": ", taken, " given, expected ",
           positional.values != nullptr ? "at least " : "", positional.at_least, " (see ",
           table_.invocation(), " --help)");
    if (positional.values != nullptr)
      positional.values->assign(given.begin() + static_cast<std::ptrdiff_t>(next), given.end());
    else if (taken == 1)
      *positional.value = given[next];
    next += taken;
  }
  if (next == given.size()) return;
  std::vector<std::string> verbs;
  for (const Verb& verb : table_.verbs) verbs.emplace_back(verb.name);
  const std::string near = nearest(given[next], verbs);
  fail(Exit::usage, shown(given[next]), ": unexpected argument",
       near.empty() ? " (see " + table_.invocation() + " --help)" : "; did you mean " + near + "?");
}

void CommandLine::check_required() const {
  for (const Option& option : table_.options)
    if (option.required && option.source == Source::fallback && option.origin == "default")
      fail(Exit::usage, option.name(), ": not given, but required; expected ", option.expected());
}

void CommandLine::parse() {
  declare_common();
  std::vector<std::string> positional;
  const std::vector<Setting> arguments = from_command_line(positional);
  apply(arguments, Source::command_line, true);
  answer_questions(positional);
  const std::vector<Setting> environment = from_environment();
  apply(environment, Source::environment, true);
  apply(arguments, Source::command_line, true);  // --config again: it comes before MT_CONFIG
  apply(from_config_file(), Source::config, false);
  apply(environment, Source::environment, false);
  apply(arguments, Source::command_line, false);
  answer_nothing();
  take_positionals(positional);
  open_log({.level = quiet_         ? Log::Level::quiet
                     : verbose_ > 1 ? Log::Level::debug
                     : verbose_ > 0 ? Log::Level::verbose
                                    : Log::Level::normal,
            .format = log_format_ == "json" ? Log::Format::json : Log::Format::text,
            .progress = progress_ == "json"   ? Log::Show::json
                        : progress_ == "none" ? Log::Show::none
                                              : Log::Show::automatic,
            .color = color(STDERR_FILENO)});
  for (const std::string& line : unknown_variables(table_)) log_.warn(line);
  if (before_print_) before_print_();
  if (!print_config_.empty()) answer_print_config();
  check_required();
}

void CommandLine::open_log(Log::Settings settings) {
  settings.program = table_.program;
  const char* const kind = std::getenv("TERM");  // a dumb one cannot erase what is drawn
  settings.terminal =
      ::isatty(STDERR_FILENO) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
  settings.drawing = log_.settings().drawing;
  settings.activities = {};  // they hold this log, which therefore holds them not
  activities_->speak_through(Log(settings));
  settings.activities = activities_;
  log_ = Log(settings);
}

bool CommandLine::color(int descriptor) const {
  if (color_ != "auto") return color_ == "always";
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && (no_color == nullptr || *no_color == '\0') &&
         terminal != nullptr && std::string_view(terminal) != "dumb";
}

// --- Answers. ---

void CommandLine::answer(const std::string& text) {
  File::create("-").write(text);
  throw Finished();
}

void CommandLine::answer_help(const std::vector<std::string>& positional) const {
  std::string asked;
  for (const std::string& word : positional) asked += concat(asked.empty() ? "" : " ", word);
  if (asked.empty()) answer(help_text(table_));
  const std::string section = help_section(table_, asked);
  if (!section.empty()) answer(section);
  if (!table_.positionals.empty()) answer(help_text(table_));  // they are arguments
  fail(Exit::usage, "--help ", asked, ": no such section; there are ", section_names(table_));
}

// Nothing was given, where something must be: what to type.
void CommandLine::answer_nothing() const {
  const auto lacks = [](const Option& option) { return option.required && !option.given(); };
  const auto is_needed = [](const Positional& one) { return one.at_least > 0; };
  const auto is_given = [&](const std::string& name) {
    return std::ranges::any_of(table_.options, [&](const Option& option) {
      return option.answers_to(name) && option.given();
    });
  };
  const bool begins = table_.first.empty() || std::ranges::any_of(table_.first, is_given);
  if (!arguments_.empty() || !print_config_.empty()) return;
  if (begins && std::ranges::none_of(table_.options, lacks) &&
      std::ranges::none_of(table_.positionals, is_needed))
    return;
  const std::string text = usage_text(table_);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  throw Error(Exit::usage, "");
}

void CommandLine::answer_questions(const std::vector<std::string>& positional) const {
  if (short_help_) answer(help_short(table_));
  if (help_ == "text") answer_help(positional);
  if (help_ == "json") answer(help_json(table_));
  if (help_ == "man") answer(help_man(table_));
  if (help_ == "words") answer(help_words(table_));
  if (version_)
    answer(version_text(table_.program) + (gpu_version_ ? gpu_version_() : "CUDA: built without") +
           "\n");
  if (!completion_.empty()) answer(completion_script(table_, completion_));
}

static std::string config_line(const Option& option) {
  std::string value;
  for (const std::string& one : option.texts())
    value += (value.empty() ? "" : ", ") + config_value(one);
  if (option.takes_list()) value = "[" + value + "]";
  const bool changed = option.origin != "default", implied = option.kind == Kind::implied;
  return concat(changed ? "" : "# ", option.key(), ":", value.empty() ? "" : " " + value, "  # ",
                implied ? "always on: " + option.help : option.origin, "\n");
}

void CommandLine::answer_print_config() const {
  std::string text;
  if (print_config_ == "json") {
    JsonWriter json;
    write_options(json);
    answer(json.text() + "\n");
  }
  for (const Option& option : table_.options)
    if (!option.early && (option.has_variable() || option.given())) text += config_line(option);
  answer(text);
}

// --- After parse(). ---

bool CommandLine::given(std::string_view name) const { return known(name).given(); }

std::string CommandLine::origin(std::string_view name) const { return known(name).origin; }

void CommandLine::fallback(std::string_view name, const std::vector<std::string>& values,
                           const std::string& from) {
  if (given(name)) return;
  Option& option = *table_.find(name);
  if (!option.assign(values)) {
    std::string text;
    for (const std::string& value : values) text += " " + shown(value);
    fail(Exit::bad_config, from, ": ", option.key(), ":", text, ": expected ",
         option.expected(values));
  }
  mark(option, Source::fallback, from);
}

void CommandLine::forget(std::string_view name) {
  if (given(name)) mark(*table_.find(name), Source::fallback, "default");
}

void CommandLine::write_options(JsonWriter& json) const {
  json.begin_object();
  for (const Option& option : table_.options) {
    if (option.common || !(option.has_variable() || option.given())) continue;
    const bool implied = option.kind == Kind::implied;
    json.key(option.key()).begin_object().key("value").raw(option.json());
    json.member("origin", implied ? "always on" : option.origin).end_object();
  }
  json.end_object();
}

}  // namespace mt
