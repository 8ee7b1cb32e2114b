#include "text/python_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"

namespace mt {
namespace {

constexpr std::uint32_t kMostSteps = 10'000'000, kMostKiB = 1 << 20;

struct Free {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

PCRE2_SPTR bytes_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string message_of(int error) {
  PCRE2_UCHAR line[256];
  pcre2_get_error_message(error, line, sizeof line);
  return reinterpret_cast<const char*>(line);
}

// The expression with \z, as PCRE2 calls the end of the text, for Python's \Z.
std::string pcre2_form(std::string_view expression) {
  std::string form;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    form += expression[i];
    if (expression[i] != '\\' || i + 1 == expression.size()) continue;
    ++i;
    form += expression[i] == 'Z' ? 'z' : expression[i];
  }
  return form;
}

// What `by` puts in a match's place.
void append_expanded(std::string& out, std::string_view by, const PythonRegex::Match& match,
                     std::string_view whole) {
  const auto group = [&](std::size_t number) {
    if (number > match.groups.size())
      fail(Exit::bad_data, "a regular expression's replacement: invalid group reference ", number);
    out += number == 0 ? whole : match.groups[number - 1];
  };
  const auto digit = [&](std::size_t at) {
    return at < by.size() && '0' <= by[at] && by[at] <= '9';
  };
  for (std::size_t i = 0; i < by.size(); ++i) {
    if (by[i] != '\\' || i + 1 == by.size()) {
      out += by[i];
      continue;
    }
    const char c = by[++i];
    std::size_t number = 0;
    if (digit(i)) {
      number = static_cast<std::size_t>(c - '0');
      if (digit(i + 1)) number = number * 10 + static_cast<std::size_t>(by[++i] - '0');
      group(number);
    } else if (by.substr(i).starts_with("g<") && digit(i + 2)) {
      for (i += 2; digit(i) && number < 100; ++i)
        number = number * 10 + static_cast<std::size_t>(by[i] - '0');
      if (i == by.size() || by[i] != '>')
        fail(Exit::bad_data, "a regular expression's replacement: expected \\g<number>");
      group(number);
    } else if (c == 'n' || c == 't' || c == 'r' || c == '\\') {
      out += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : '\\';
    } else {
      fail(Exit::bad_data, "a regular expression's replacement: bad escape \\", c);
    }
  }
}

}  // namespace

PythonRegex::PythonRegex(std::string_view expression) : expression_(expression) {
  const std::string form = pcre2_form(expression);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* const code =
      pcre2_compile(bytes_of(form), form.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                    &error, &offset, nullptr);
  if (code == nullptr)
    fail(Exit::bad_config, "the regular expression \"", expression, "\": ", message_of(error));
  code_ = {code,
           [](const pcre2_code* compiled) { pcre2_code_free(const_cast<pcre2_code*>(compiled)); }};
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it, it is only slower
}

std::vector<PythonRegex::Match> PythonRegex::find_all(std::string_view text,
                                                      std::size_t most) const {
  const std::unique_ptr<pcre2_match_data, Free> data(
      pcre2_match_data_create_from_pattern(code_.get(), nullptr));
  const std::unique_ptr<pcre2_match_context, Free> context(pcre2_match_context_create(nullptr));
  if (!data || !context) fail(Exit::out_of_memory, "no memory for a regular expression");
  pcre2_set_match_limit(context.get(), kMostSteps);
  pcre2_set_heap_limit(context.get(), kMostKiB);
  std::vector<Match> found;
  // Behind an empty match the next one is further on, or not empty.
  std::uint32_t options = 0;
  for (std::size_t at = 0; at <= text.size() && found.size() < most;) {
    const auto search = [&](std::uint32_t more) {
      return pcre2_match(code_.get(), bytes_of(text), text.size(), at, options | more, data.get(),
                         context.get());
    };
    int result = search(0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = search(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0)
      fail(Exit::bad_data, "the regular expression \"", expression_, "\" on a text of ",
           text.size(), " bytes: ", message_of(result));
    const PCRE2_SIZE* const offsets = pcre2_get_ovector_pointer(data.get());
    Match match{.begin = offsets[0], .end = offsets[1]};
    for (std::uint32_t i = 1; i < pcre2_get_ovector_count(data.get()); ++i)
      match.groups.push_back(
          offsets[2 * i] == PCRE2_UNSET
              ? std::string_view()
              : text.substr(offsets[2 * i], offsets[2 * i + 1] - offsets[2 * i]));
    at = match.end;
    options = match.begin == match.end ? PCRE2_NOTEMPTY_ATSTART : 0;
    found.push_back(std::move(match));
  }
  return found;
}

std::string PythonRegex::replace(std::string_view text, std::string_view by,
                                 std::int64_t count) const {
  std::string out;
  std::size_t end = 0;
  const std::size_t most = count > 0 ? static_cast<std::size_t>(count) : ~std::size_t{0};
  for (const Match& match : find_all(text, most)) {
    out += text.substr(end, match.begin - end);
    append_expanded(out, by, match, text.substr(match.begin, match.end - match.begin));
    end = match.end;
  }
  return out.append(text.substr(end));
}

}  // namespace mt
