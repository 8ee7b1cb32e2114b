#include "text/hf/hf_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <charconv>

#include "base/json_object.h"
#include "text/hf/hf_regex_syntax.h"
#include "text/unicode/utf8_length.h"

namespace mt {
namespace {

constexpr std::uint32_t kMostSteps = 10'000'000, kMostKiB = 1 << 20;

struct Free {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

// Called behind a back reference that passes over case, with the group's number or name.  Oniguruma
// compares as many bytes as the group has, all of which must be there: after an s of one byte it
// finds no U+017F, of two, and after that an s only before another byte.
int compare_bytes(pcre2_callout_block* block, void* code) {
  const std::string name(reinterpret_cast<const char*>(block->callout_string),
                         block->callout_string_length);
  int number = 0;
  if (std::from_chars(name.data(), name.data() + name.size(), number).ec != std::errc())
    number = pcre2_substring_number_from_name(static_cast<const pcre2_code*>(code),
                                              reinterpret_cast<PCRE2_SPTR>(name.c_str()));
  const std::string_view text(reinterpret_cast<const char*>(block->subject), block->subject_length);
  const PCRE2_SIZE* const ends = block->offset_vector + 2 * static_cast<std::size_t>(number);
  const std::string_view group = text.substr(ends[0], ends[1] - ends[0]);
  std::size_t begin = block->current_position;
  for (std::size_t left = characters(group); left > 0; --left) {
    do --begin;
    while ((text[begin] & 0xC0) == 0x80);
  }
  const bool same =
      block->current_position - begin <= group.size() && text.size() - begin >= group.size();
  return same ? 0 : 1;  // 1 goes back
}

// One word being searched.
class Search {
 public:
  Search(const pcre2_code* code, std::string_view word)
      : code_(code),
        word_(word),
        data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    if (!data_ || !context_) fail(Exit::out_of_memory, "no memory for a regular expression");
    pcre2_set_match_limit(context_.get(), kMostSteps);
    pcre2_set_heap_limit(context_.get(), kMostKiB);
    pcre2_set_callout(context_.get(), compare_bytes, const_cast<pcre2_code*>(code));
  }

  struct Match {
    std::size_t begin, end;
  };
  // The first match from `at` on; false where there is none.
  bool find(std::size_t at, Match& match, const std::string& expression) {
    int result = run(at, PCRE2_NO_UTF_CHECK);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = run(at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result < 0) {
      PCRE2_UCHAR line[256];
      pcre2_get_error_message(result, line, sizeof line);
      fail(Exit::bad_data, "the regular expression ", json_quoted(expression), " on a word of ",
           word_.size(), " bytes: ", reinterpret_cast<const char*>(line));
    }
    const PCRE2_SIZE* const offsets = pcre2_get_ovector_pointer(data_.get());
    match = {offsets[0], offsets[1]};
    return true;
  }

 private:
  int run(std::size_t at, std::uint32_t options) {
    return pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(word_.data()), word_.size(), at, options,
                       data_.get(), context_.get());
  }

  const pcre2_code* code_;
  std::string_view word_;
  std::unique_ptr<pcre2_match_data, Free> data_;
  std::unique_ptr<pcre2_match_context, Free> context_;
};

}  // namespace

// A compiled expression; null, with what is wrong, where PCRE2 does not take it.
static pcre2_code* compile(const std::string& pattern, int& error) {
  PCRE2_SIZE offset = 0;
  return pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                       PCRE2_UTF | PCRE2_MULTILINE, &error, &offset, nullptr);
}

HfRegex::HfRegex(std::string_view expression, const JsonObject& where) : expression_(expression) {
  const Pcre2Expression pattern = pcre2_expression(expression, where);
  const std::string inlined = pattern.inlined();
  int error = PCRE2_ERROR_PATTERN_TOO_LARGE;
  pcre2_code* code = inlined.empty() && !expression.empty() ? nullptr : compile(inlined, error);
  if (code == nullptr && error == PCRE2_ERROR_PATTERN_TOO_LARGE)
    code = compile(pattern.shared(), error);
  if (code == nullptr) {
    PCRE2_UCHAR line[256];
    pcre2_get_error_message(error, line, sizeof line);
    where.refuse("the regular expression ", json_quoted(expression), ": ",
                 reinterpret_cast<const char*>(line));
  }
  code_.reset(code, [](pcre2_code* old) { pcre2_code_free(old); });
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where there is none, it is slower
}

void HfRegex::match(std::string_view word, std::vector<HfPart>& parts) const {
  Search search(code_.get(), word);
  Search::Match match;
  std::size_t last = 0;  // the end of the last part
  bool matched = false;  // is it a match?
  for (std::size_t at = 0; at <= word.size() && search.find(at, match, expression_);) {
    if (match.begin == match.end && matched && match.end == last) {
      // No empty match right behind another match.
      if (at == word.size()) break;
      at += utf8_length(word[at]);
      continue;
    }
    if (match.begin > last) parts.push_back({match.begin, false});
    parts.push_back({match.end, true});
    at = last = match.end;
    matched = true;
  }
  if (last < word.size()) parts.push_back({word.size(), false});
}

std::string HfRegex::replace(std::string_view text, std::string_view content) const {
  if (text.empty()) return {};  // where the library looks for no match
  std::vector<HfPart> parts;
  match(text, parts);
  std::string result;
  std::size_t at = 0;
  for (const auto& [end, is_match] : parts) {
    result += is_match ? content : text.substr(at, end - at);
    at = end;
  }
  return result;
}

}  // namespace mt
