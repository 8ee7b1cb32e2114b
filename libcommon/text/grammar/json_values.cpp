#include "text/grammar/json_values.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/grammar/json_text.h"

namespace mt {

// What is the same wherever it stands is a rule of its own.
template <class Add>
JsonValues::Node JsonValues::called(std::optional<Rule>& rule, Node from, const Add& add) {
  if (!rule) {
    rule = g_.add_rule();
    add(g_.begin(*rule), g_.end(*rule));
  }
  return g_.call(from, *rule);
}

JsonValues::Node JsonValues::any(Node from) {
  return called(any_, from, [&](Node begin, Node end) {
    for (const std::string_view type : {"object", "array", "string", "number", "boolean", "null"})
      g_.link(plain(begin, type), end);
  });
}

JsonValues::Node JsonValues::plain(Node from, std::string_view type) {
  if (type == "string") return string(from);
  if (type == "number") return number(from);
  if (type == "object") return object(from, {}, {}, [&](Node at) { return any(at); });
  if (type == "array") return list(from, {}, [&](Node at) { return any(at); }, 0, {});
  if (type == "null") return g_.text(from, "null");
  const Node to = g_.add();
  g_.link(g_.text(from, "true"), to);
  g_.link(g_.text(from, "false"), to);
  return to;
}

// --- Strings ---

JsonValues::Node JsonValues::string(Node from) {
  return called(string_, from, [&](Node begin, Node end) {
    const Node inside = g_.text(begin, "\"");
    g_.link(character(inside), inside);
    g_.link(g_.text(inside, "\""), end);
  });
}

JsonValues::Node JsonValues::string_of_length(Node from, std::int64_t least,
                                              std::optional<std::int64_t> most) {
  Node at = g_.text(from, "\"");
  const Node inside_last = g_.add();
  for (std::int64_t i = 0; i < least; ++i) at = character(at);
  g_.link(at, inside_last);
  if (!most) {
    const Node loop = g_.add();
    g_.link(at, loop);
    g_.link(character(loop), loop);
    g_.link(loop, inside_last);
  }
  for (std::int64_t i = least; most && i < *most; ++i) g_.link(at = character(at), inside_last);
  return g_.text(inside_last, "\"");
}

JsonValues::Node JsonValues::string_of_pattern(Node from, std::string_view pattern) {
  return g_.text(add_json_pattern(g_, g_.text(from, "\""), pattern), "\"");
}

// Plain, or any escape.
JsonValues::Node JsonValues::character(Node from) {
  return called(character_, from, [&](Node begin, Node end) {
    static const PointRanges kPlain = complement({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
    g_.link(add_character(g_, begin, kPlain), end);
    const Node escaped = g_.text(begin, "\\");
    for (const char c : std::string_view("\"\\/bfnrt")) g_.link(g_.text(escaped, {&c, 1}), end);
    const Node u = g_.text(escaped, "u");
    const auto digits = [&](Node at, std::string_view runs) {  // pairs of ends
      const Node to = g_.add();
      for (std::size_t i = 0; i < runs.size(); i += 2)
        g_.bytes(at, static_cast<std::uint8_t>(runs[i]), static_cast<std::uint8_t>(runs[i + 1]),
                 to);
      return to;
    };
    constexpr std::string_view kHex = "09afAF";
    const auto two = [&](Node at) { return digits(digits(at, kHex), kHex); };
    g_.link(two(digits(digits(u, "09acefACEF"), kHex)), end);
    const Node d = digits(u, "ddDD");
    g_.link(two(digits(d, "07")), end);
    const Node high = two(digits(d, "89abAB"));  // of a pair
    g_.link(two(digits(digits(g_.text(high, "\\u"), "ddDD"), "cfCF")), end);
  });
}

// A string that is none of these names, and begins like none of them with an escape.
JsonValues::Node JsonValues::other_name(Node from, const std::set<std::string>& names) {
  const Node to = g_.add();
  const Node quoted = g_.text(from, "\"");
  if (names.empty()) {
    g_.link(character(quoted), quoted);
    g_.link(g_.text(quoted, "\""), to);
    return to;
  }
  const Node free = g_.add();
  g_.link(character(free), free);
  g_.link(g_.text(free, "\""), to);
  const auto behind = [&](const auto& self, Node at, const std::string& begun) -> void {
    std::set<char32_t> next;
    for (auto name = names.lower_bound(begun); name != names.end() && name->starts_with(begun);
         ++name)
      if (std::size_t place = begun.size(); place < name->size())
        next.insert(next_code_point(*name, place));
    if (!names.contains(begun)) g_.link(g_.text(at, "\""), to);
    PointRanges taken{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    for (const char32_t point : next) taken.emplace_back(point, point);
    g_.link(add_character(g_, at, complement(taken)), free);
    for (const char32_t point : next) {
      std::string longer = begun;
      append_utf8(longer, point);
      self(self, add_character(g_, at, {{point, point}}), longer);
    }
  };
  behind(behind, quoted, "");
  return to;
}

// --- Numbers ---

JsonValues::Node JsonValues::number(Node from) {
  return called(number_, from, [&](Node begin, Node end) {
    const Node whole = integer(begin);
    g_.link(whole, end);
    const Node fraction = digits(g_.text(whole, "."));
    g_.link(fraction, end);
    const Node exponent = g_.add(), sign = g_.add();
    for (const Node at : {whole, fraction})
      for (const char* const e : {"e", "E"}) g_.link(g_.text(at, e), exponent);
    g_.link(exponent, sign);
    for (const char* const s : {"+", "-"}) g_.link(g_.text(exponent, s), sign);
    g_.link(digits(sign), end);
  });
}

JsonValues::Node JsonValues::integer(Node from) {
  return called(integer_, from, [&](Node begin, Node end) {
    const Node size = g_.add();
    g_.link(begin, size);
    g_.link(g_.text(begin, "-"), size);
    at_least(size, "0", end);
  });
}

JsonValues::Node JsonValues::bounded(Node from, std::optional<Bound> low, std::optional<Bound> high,
                                     bool fraction) {
  const Node to = g_.add();
  if (!high || high->value >= 0)
    size_between(from, low && low->value >= 0 ? *low : Bound{}, high, fraction, to);
  if (low && low->value >= 0) return to;
  const bool has_zero = high && high->value < 0;
  std::optional<Bound> most;
  if (low) most = Bound{-low->value, low->itself};
  size_between(g_.text(from, "-"), has_zero ? Bound{-high->value, high->itself} : Bound{0, false},
               most, fraction, to);
  return to;
}

// --- Lists and objects ---

JsonValues::Node JsonValues::list(Node from, const std::vector<Write>& first, const Write& others,
                                  std::int64_t least, std::optional<std::int64_t> most) {
  const Node end = g_.add();
  Node at = g_.text(from, "[");
  const auto size = std::ssize(first);
  std::int64_t listed = std::max<std::int64_t>({1, size, least});
  if (most) listed = *most;
  if (!others) listed = std::min(listed, size);
  for (std::int64_t i = 0; i < listed; ++i) {
    if (i >= least) g_.link(at, end);
    if (i > 0) at = comma(at);
    at = i < size ? first[static_cast<std::size_t>(i)](at) : others(at);
  }
  if (listed >= least) g_.link(at, end);
  if (!most && others) g_.link(others(comma(at)), at);
  return g_.text(end, "]");
}

JsonValues::Node JsonValues::object(Node from, const std::vector<Property>& properties,
                                    const std::set<std::string>& names, const Write& others) {
  Node none = g_.text(from, "{"), some = g_.add();  // how many members there are
  const auto pair = [&](const std::function<Node(Node)>& name, const Write& value) {
    const Node begin = g_.add();
    g_.link(none, begin);
    g_.link(comma(some), begin);
    return value(colon(name(begin)));
  };
  for (const Property& p : properties) {
    const Node behind = pair([&](Node at) { return g_.text(at, p.name); }, p.value);
    const Node still_none = g_.add();
    if (!p.required) {
      g_.link(none, still_none);
      g_.link(some, behind);
    }
    none = still_none;
    some = behind;
  }
  if (others) {
    const Node behind = pair([&](Node at) { return other_name(at, names); }, others);
    g_.link(behind, some);
  }
  const Node end = g_.add();
  g_.link(none, end);
  g_.link(some, end);
  return g_.text(end, "}");
}

JsonValues::Node JsonValues::separator(Node from, std::string_view text) {
  const Node at = g_.text(from, text), to = g_.text(at, " ");
  g_.link(at, to);
  return to;
}

JsonValues::Node JsonValues::digits(Node from) {  // at least one
  const Node to = g_.add();
  g_.bytes(from, '0', '9', to);
  g_.bytes(to, '0', '9', to);
  return to;
}

// The integers from this one on.
void JsonValues::at_least(Node from, const std::string& low, Node to) {
  same_length(from, low, std::string(low.size(), '9'), to);
  Node at = g_.add();
  g_.bytes(from, '1', '9', at);
  for (std::size_t i = 0; i < low.size(); ++i) {
    const Node next = g_.add();
    g_.bytes(at, '0', '9', next);
    at = next;
  }
  g_.bytes(at, '0', '9', at);
  g_.link(at, to);
}

void JsonValues::same_length(Node from, std::string_view low, std::string_view high, Node to) {
  g_.between(from, low, high, {'0', '9'}, to);
}

void JsonValues::from_to(Node from, std::int64_t low, std::int64_t high, Node to) {
  if (low > high) return;
  std::string a = std::to_string(low), b = std::to_string(high);
  for (; a.size() < b.size(); a = "1" + std::string(a.size(), '0'))
    same_length(from, a, std::string(a.size(), '9'), to);
  same_length(from, a, b, to);
}

// Numbers without a sign.
void JsonValues::size_between(Node from, Bound low, std::optional<Bound> high, bool fraction,
                              Node to) {
  if (!fraction) {
    if (!low.itself) ++low.value;
    if (!high) return at_least(from, std::to_string(low.value), to);
    return from_to(from, low.value, high->itself ? high->value : high->value - 1, to);
  }
  // Those that begin with an integer below the bound may have any fraction behind it.
  const Node whole = g_.add();
  const std::int64_t first = low.itself ? low.value : low.value + 1;
  if (!high)
    at_least(from, std::to_string(first), whole);
  else
    from_to(from, first, high->value - 1, whole);
  g_.link(whole, to);
  g_.link(digits(g_.text(whole, ".")), to);
  if (!low.itself && (!high || low.value < high->value)) {  // more than it: some digit is not 0
    const Node zeros = g_.text(from, std::to_string(low.value) + "."), other = g_.add();
    g_.bytes(zeros, '0', '0', zeros);
    g_.bytes(zeros, '1', '9', other);
    g_.bytes(other, '0', '9', other);
    g_.link(other, to);
  }
  if (high && high->itself && (low.value < high->value || low.itself)) {
    const Node last = g_.text(from, std::to_string(high->value)), zeros = g_.text(last, ".0");
    g_.bytes(zeros, '0', '0', zeros);
    g_.link(last, to);
    g_.link(zeros, to);
  }
}

}  // namespace mt
