#include "base/option_help.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "base/error.h"
#include "base/json.h"

namespace mt {

using Kind = Option::Kind;

static constexpr std::size_t kWidth = 80, kHelpColumn = 28;

static bool is_short(const std::string& name) { return !name.starts_with("--"); }

// --- Parts that several forms share. ---

static std::string joined_choices(const Option& option) {
  std::string joined;
  for (const std::string& choice : option.check.choices)
    joined += concat(joined.empty() ? "" : "|", choice);
  return joined;
}

static std::string metavar(const Option& option) {
  if (!option.takes_value()) return "";
  if (!option.has_variable() && option.check.choices.empty())
    return option.check.expected().empty() ? "N" : option.check.expected();
  const std::string one = option.metavar.empty() ? joined_choices(option) : option.metavar;
  return option.takes_list() && !option.one_each ? one + " ..." : one;
}

static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// " [4]", " (required)" or nothing.
static std::string default_note(const Option& option) {
  if (option.required) return " (required)";
  if (!option.takes_value() || option.default_text.empty()) return "";
  return concat(" [", option.default_text, "]");
}

static std::string usage_of(const Positional& positional) {
  const std::string name = positional.name + (positional.values != nullptr ? " ..." : "");
  return positional.at_least == 0 ? concat("[", name, "]") : name;
}

static std::string usage_arguments(const OptionTable& table) {
  std::string usage = " [OPTIONS]";
  for (const Positional& positional : table.positionals) usage += concat(" ", usage_of(positional));
  return usage;
}

struct Section {
  std::string title;
  std::vector<const Option*> options;
};

// Options with a variable, by section in order of appearance; the common ones last.
static std::vector<Section> sections(const OptionTable& table) {
  std::vector<Section> found;
  for (const Option& option : table.options) {
    if (!option.has_variable()) continue;
    const std::string title = option.section.empty() ? "Options" : option.section;
    auto at = std::ranges::find(found, title, &Section::title);
    if (at == found.end()) at = found.insert(found.end(), {title, {}});
    at->options.push_back(&option);
  }
  return found;
}

static std::vector<const Option*> of_kind(const OptionTable& table, Kind kind) {
  std::vector<const Option*> found;
  for (const Option& option : table.options)
    if (option.kind == kind) found.push_back(&option);
  return found;
}

// --- --help ---

static std::vector<std::string> wrap(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    if (line.empty())
      line = word;
    else if (line.size() + 1 + word.size() <= width)
      line += " " + word;
    else
      lines.push_back(word);
  }
  return lines;
}

static void write_row(std::ostream& out, const std::string& left, const std::string& help) {
  out << "  " << left;
  std::size_t column = 2 + left.size();
  for (const std::string& line : wrap(help, kWidth - kHelpColumn)) {
    if (column + 2 > kHelpColumn) {
      out << '\n';
      column = 0;
    }
    out << std::string(kHelpColumn - column, ' ') << line;
    column = kWidth;
  }
  out << '\n';
}

static std::string left_column(const Option& option) {
  std::string names;
  for (const bool shorts : {true, false})
    for (const std::string& name : option.names)
      if (is_short(name) == shorts) names += concat(names.empty() ? "" : ", ", name);
  const std::string value = metavar(option);
  return value.empty() ? names : names + " " + value;
}

static void write_paragraphs(std::ostream& out, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find("\n\n", at), text.size());
    out << '\n';
    for (const std::string& line : wrap(text.substr(at, end - at), kWidth)) out << line << '\n';
    at = end + 2;
  }
}

static void write_section(std::ostream& out, const Section& section) {
  out << '\n' << section.title << ":\n";
  for (const Option* option : section.options)
    write_row(out, left_column(*option), first_line(option->help) + default_note(*option));
}

static void write_usage(std::ostream& out, const OptionTable& table) {
  out << "usage: " << table.invocation() << usage_arguments(table) << '\n';
}

std::string help_text(const OptionTable& table) {
  std::ostringstream out;
  out << table.invocation() << ": " << table.summary << "\n\n";
  write_usage(out, table);
  if (!table.verbs.empty()) out << "       " << table.program << " VERB --help\n";
  write_paragraphs(out, table.details);
  if (!table.verbs.empty()) out << "\nVerbs:\n";
  for (const Verb& verb : table.verbs) write_row(out, verb.name, verb.help);
  if (!table.positionals.empty()) out << "\nArguments:\n";
  for (const Positional& positional : table.positionals)
    write_row(out, positional.name, first_line(positional.help));
  for (const Section& section : sections(table))
    if (table.verb.empty() || !section.options.front()->common) write_section(out, section);
  if (!table.verb.empty())
    write_paragraphs(out, "Options that all verbs have: " + table.invocation() + " --help common");
  std::string implied;
  for (const Option* option : of_kind(table, Kind::implied)) implied += concat(" ", option->name());
  if (!table.flags_page.empty())
    write_paragraphs(out, "Other options of Megatron-LM are accepted or refused by name: see " +
                              table.flags_page + ".");
  else if (!implied.empty())
    write_paragraphs(out, "Always on, and accepted:" + implied);
  return std::move(out).str();
}

static bool begins_with(const std::string& text, const std::string& start) {
  const auto same = [](char a, char b) { return std::tolower(a) == std::tolower(b); };
  return text.size() >= start.size() && std::equal(start.begin(), start.end(), text.begin(), same);
}

std::string help_section(const OptionTable& table, const std::string& name) {
  std::ostringstream out;
  for (const Section& section : sections(table))
    if (begins_with(section.title, name)) write_section(out, section);
  const std::string text = std::move(out).str();
  return text.empty() ? "" : text.substr(1);
}

std::string section_names(const OptionTable& table) {
  std::string names;
  for (const Section& section : sections(table))
    names += concat(names.empty() ? "" : ", ", section.title);
  return names;
}

// --- -h ---

// The text up to a width, without what comes behind the last mark that fits, if there is one.
static std::string cut(const std::string& text, std::size_t width) {
  if (text.size() <= width) return text;
  for (const std::string_view mark : {"; ", ": ", " (", ", ", " "}) {
    const std::size_t end = text.rfind(mark, width);
    if (end != text.npos && end > width / 3) return text.substr(0, end);
  }
  return text.substr(0, width);
}

// Those that the program names; else the required ones, and the first of the others.
static std::vector<const Option*> first_options(const OptionTable& table) {
  constexpr std::size_t kMost = 10;
  std::vector<const Option*> first;
  const auto take = [&](auto&& is_wanted) {
    for (const Option& option : table.options)
      if (first.size() < kMost && option.has_variable() && !option.common && is_wanted(option) &&
          std::ranges::find(first, &option) == first.end())
        first.push_back(&option);
  };
  for (const std::string& name : table.first)
    take([&](const Option& option) { return option.answers_to(name); });
  if (!table.first.empty()) return first;
  take([](const Option& option) { return option.required; });
  take([](const Option&) { return true; });
  return first;
}

static void write_names(std::ostream& out, const std::string& title, const std::string& names) {
  constexpr std::size_t kIndent = 2;
  out << title << '\n';
  for (const std::string& line : wrap(names, kWidth - kIndent))
    out << std::string(kIndent, ' ') << line << '\n';
}

std::string help_short(const OptionTable& table) {
  std::ostringstream out;
  for (const std::string& line : wrap(concat(table.invocation(), ": ", table.summary), kWidth))
    out << line << '\n';
  write_usage(out, table);
  const std::vector<const Option*> first = first_options(table);
  if (!first.empty()) out << "Options of a first run:\n";
  for (const Option* option : first) {
    const std::string left = left_column(*option);
    const std::size_t column = std::max(kHelpColumn, left.size() + 4);
    out << "  " << left << std::string(column - 2 - left.size(), ' ')
        << cut(first_line(option->help), kWidth - column) << '\n';
  }
  std::string verbs;
  for (const Verb& verb : table.verbs) verbs += concat(verbs.empty() ? "" : ", ", verb.name);
  if (!verbs.empty()) write_names(out, "Verbs (" + table.program + " VERB -h):", verbs);
  write_names(out, "Sections (" + table.invocation() + " --help SECTION):", section_names(table));
  out << "All: " << table.invocation() << " --help, man " << table.program << '\n';
  return std::move(out).str();
}

std::string usage_text(const OptionTable& table) {
  std::ostringstream out;
  std::string line = table.invocation();
  for (const Option& option : table.options)
    if (option.required) line += concat(" ", option.name(), " ", metavar(option));
  line += usage_arguments(table);
  out << table.invocation() << ": " << table.summary << '\n';
  out << "usage: " << line << '\n';
  if (table.verbs.empty())
    out << "a first run: " << table.invocation() << " -h\n";
  else
    out << "       " << table.program << " VERB ..., a first run: " << table.program << " -h\n";
  out << "all options: " << table.invocation() << " --help, man " << table.program << '\n';
  return std::move(out).str();
}

// --- --help=json ---

static const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::value:
      return "value";
    case Kind::list:
      return "list";
    case Kind::flag:
      return "flag";
    case Kind::off_switch:
      return "off-switch";
    case Kind::count:
      return "count";
    case Kind::implied:
      return "implied";
    case Kind::refused:
      return "refused";
  }
  return "";
}

static void write_option(JsonWriter& json, const Option& option) {
  json.begin_object().key("names").begin_array();
  for (const std::string& name : option.names) json.value(name);
  json.end_array().member("kind", kind_name(option.kind));
  if (option.has_variable()) {
    json.member("type", option.type()).member("metavar", metavar(option));
    json.key("default").raw(option.default_json).member("required", option.required);
    const bool is_text = option.type() == "string" && option.check.choices.empty();
    json.member("expected", is_text ? "one text" : option.expected());
    json.key("choices").begin_array();
    for (const std::string& choice : option.check.choices) json.value(choice);
    json.end_array();
    json.key("environment");
    option.command_line_only ? json.null() : json.value(option.variable());
  } else if (option.takes_value()) {
    json.member("type", option.type()).member("list", option.takes_list());
    json.member("accepts", option.check.expected());
  }
  json.member("section", option.section).member("help", option.help).end_object();
}

std::string help_json(const OptionTable& table) {
  JsonWriter json;
  json.begin_object().member("schema", "mt-help/1").member("program", table.program);
  json.member("verb", table.verb).member("summary", table.summary);
  json.member("details", table.details).key("verbs").begin_array();
  for (const Verb& verb : table.verbs)
    json.begin_object().member("name", verb.name).member("help", verb.help).end_object();
  json.end_array().key("arguments").begin_array();
  for (const Positional& positional : table.positionals) {
    json.begin_object().member("name", positional.name).member("help", positional.help);
    json.member("many", positional.values != nullptr);
    json.member("at_least", positional.at_least).end_object();
  }
  json.end_array().key("options").begin_array();
  for (const Option& option : table.options) write_option(json, option);
  json.end_array().end_object();
  return json.text() + "\n";
}

// --- --help=man ---

// Text as roff: no line of it is a request, a backslash and a minus stand for themselves.
static std::string roff(const std::string& text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    line_start = c == '\n';
    if (c == '\\' || c == '-') out += '\\';
    out += c == '\\' ? 'e' : c;
  }
  return out;
}

static void write_man_option(std::ostream& out, const Option& option) {
  std::string names;
  for (const std::string& name : option.names)
    names += concat(names.empty() ? "\\fB" : ", \\fB", roff(name), "\\fR");
  const std::string value = metavar(option);
  out << ".TP\n" << names;
  if (!value.empty()) out << " \\fI" << roff(value) << "\\fR";
  out << '\n' << roff(option.help);
  const std::string limits = option.check.expected();
  if (!limits.empty() && option.check.choices.empty() && option.has_variable())
    out << "; " << roff(limits);
  out << roff(default_note(option)) << '\n';
}

static void write_man_reasons(std::ostream& out, const OptionTable& table, Kind kind,
                              const char* title, const char* sentence) {
  const std::vector<const Option*> options = of_kind(table, kind);
  if (options.empty()) return;
  out << ".PP\n.B " << title << "\n.br\n" << sentence << '\n';
  for (const Option* option : options) write_man_option(out, *option);
}

std::string help_man(const OptionTable& table) {
  std::ostringstream out;
  if (!table.verb.empty())
    out << ".SS " << roff(table.invocation()) << '\n' << roff(table.summary) << '\n';
  if (!table.verb.empty() && !table.details.empty()) out << ".PP\n" << roff(table.details) << '\n';
  for (const Positional& positional : table.positionals)
    out << ".TP\n\\fI" << roff(usage_of(positional)) << "\\fR\n" << roff(positional.help) << '\n';
  for (const Section& section : sections(table)) {
    if (!table.verb.empty() && section.options.front()->common) continue;  // shown for the program
    out << (table.verb.empty() ? ".SS " : ".PP\n.B ") << roff(section.title) << '\n';
    for (const Option* option : section.options) write_man_option(out, *option);
  }
  if (!table.flags_page.empty()) return std::move(out).str();
  write_man_reasons(out, table, Kind::implied, "Always on",
                    "Options of Megatron-LM whose effect always holds.");
  write_man_reasons(
      out, table, Kind::refused, "Not supported",
      "Options of Megatron-LM that end the program with status 64, unless the value is "
      "the one shown.");
  return std::move(out).str();
}

// --- --help=words: options that have an effect. ---

// What a value that is called so may be, for who completes it.
static std::string completed_as(const std::string& name) {
  const auto names = [&](std::string_view part) { return name.find(part) != name.npos; };
  if (names("FILE") || names("PATH") || names("CHECKPOINT") || names("INPUT") || names("OTHER"))
    return "*";
  if (names("JSONL")) return "*.jsonl";
  if (names("DIR") || names("FOLDER")) return "*/";
  if (names("PREFIX")) return "*.idx";
  return "#";
}

std::string help_words(const OptionTable& table) {
  std::ostringstream out;
  for (const Verb& verb : table.verbs) out << verb.name << "\t-\t" << verb.help << '\n';
  if (!table.positionals.empty())
    out << "=\t" << completed_as(table.positionals.front().name) << '\t'
        << first_line(table.positionals.front().help) << '\n';
  for (const Option& option : table.options) {
    if (!option.has_variable()) continue;
    const std::string choices = joined_choices(option);
    const std::string values = !option.takes_value() ? "-"
                               : choices.empty()     ? completed_as(option.metavar)
                                                     : choices;
    for (const std::string& name : option.names)
      out << name << '\t' << values << '\t' << first_line(option.help) << '\n';
  }
  return std::move(out).str();
}

}  // namespace mt
