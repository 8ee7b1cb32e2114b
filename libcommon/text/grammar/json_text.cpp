#include "text/grammar/json_text.h"

#include <algorithm>

#include "base/error.h"

namespace mt {

ByteGrammar::Node add_character(ByteGrammar& g, ByteGrammar::Node from, const PointRanges& ranges) {
  const ByteGrammar::Node to = g.add();
  const auto escape = [&](std::string_view text) { g.link(g.text(from, text), to); };
  for (const auto& [low, high] : ranges) {
    for (char32_t point = low; point <= std::min<char32_t>(high, 0x1F); ++point) {
      static constexpr std::string_view kShort = "btn_fr", kDigits = "0123456789abcdef";
      if (8 <= point && point <= 13 && point != 11)
        escape(concat("\\", kShort[point - 8]));
      else
        escape(concat("\\u00", kDigits[point >> 4], kDigits[point & 15]));
    }
    char32_t next = std::max<char32_t>(low, 0x20);
    for (const char32_t own : {U'"', U'\\'}) {
      if (own < next || own > high) continue;
      if (own > next) g.points(from, next, own - 1, to);
      escape(own == U'"' ? R"(\")" : R"(\\)");
      next = own + 1;
    }
    if (next <= high) g.points(from, next, high, to);
  }
  return to;
}

ByteGrammar::Node add_json_pattern(ByteGrammar& grammar, ByteGrammar::Node from,
                                   std::string_view pattern) {
  return add_pattern(grammar, from, pattern, {.character = add_character});
}

std::string_view pattern_of_format(std::string_view format) {
  static constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
      {"date-time",
       R"(^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$)"},
      {"date", "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"},
      {"time",
       R"(^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$)"},
      {"uuid", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
      {"ipv4",
       R"(^((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])$)"},
      {"email",
       R"(^[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9]+(-[A-Za-z0-9]+)*(\.[A-Za-z0-9]+(-[A-Za-z0-9]+)*)+$)"}};
  for (const auto& [name, pattern] : kFormats)
    if (name == format) return pattern;
  fail(Exit::bad_data, "format \"", format,
       "\": expected date-time, date, time, uuid, ipv4 or email");
}

}  // namespace mt
