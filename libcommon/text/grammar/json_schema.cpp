#include "text/grammar/json_schema.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "base/json_object.h"
#include "base/utf8.h"
#include "text/grammar/json_text.h"

namespace mt {
namespace {

using simdjson::dom::element;
using Node = ByteGrammar::Node;
using Rule = ByteGrammar::Rule;
constexpr std::int64_t kMostLength = 4096;  // of strings and lists that a schema may ask for

std::string_view keywords_of(std::string_view type) {
  if (type == "string") return " minLength maxLength pattern format ";
  if (type == "object") return " properties required additionalProperties ";
  if (type == "array") return " items prefixItems minItems maxItems ";
  if (type == "number" || type == "integer")
    return " minimum maximum exclusiveMinimum exclusiveMaximum ";
  return " ";
}
constexpr std::string_view kTypes[] = {"object",  "array",   "string", "number",
                                       "integer", "boolean", "null"};
constexpr std::string_view kDescribing =
    " title description default examples $schema $id $comment $defs definitions deprecated "
    "readOnly "
    "writeOnly ";

bool is_among(std::string_view name, std::string_view names) {
  return !name.empty() && name.find(' ') == name.npos &&
         names.find(concat(" ", name, " ")) != names.npos;
}

// A member of an object; none, too, if it is no object.
std::optional<element> member(element of, std::string_view name) {
  element value;
  simdjson::dom::object object;
  if (of.get(object) != simdjson::SUCCESS || object[name].get(value) != simdjson::SUCCESS)
    return {};
  return value;
}

class Writer {
 public:
  explicit Writer(ByteGrammar& grammar) : g_(grammar) {}

  Node any(Node from) {
    return called(any_, from, [&](Node begin, Node end) {
      for (const std::string_view type : {"object", "array", "string", "number", "boolean", "null"})
        g_.link(plain(begin, type), end);
    });
  }
  Node plain(Node from, std::string_view type) {
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

  Node string(Node from) {
    return called(string_, from, [&](Node begin, Node end) {
      const Node inside = g_.text(begin, "\"");
      g_.link(character(inside), inside);
      g_.link(g_.text(inside, "\""), end);
    });
  }
  Node string_of_length(Node from, std::int64_t least, std::optional<std::int64_t> most) {
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
  Node string_of_pattern(Node from, std::string_view pattern) {
    return g_.text(add_pattern(g_, g_.text(from, "\""), pattern), "\"");
  }
  // Plain, or any escape.
  Node character(Node from) {
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
  Node other_name(Node from, const std::set<std::string>& names) {
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

  Node number(Node from) {
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
  Node integer(Node from) {
    return called(integer_, from, [&](Node begin, Node end) {
      const Node size = g_.add();
      g_.link(begin, size);
      g_.link(g_.text(begin, "-"), size);
      at_least(size, "0", end);
    });
  }
  struct Bound {
    std::int64_t value = 0;
    bool itself = true;
  };
  // Of a number with a fraction or of an integer: no exponent.
  Node bounded(Node from, std::optional<Bound> low, std::optional<Bound> high, bool fraction) {
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

  using Write = std::function<Node(Node)>;

  Node list(Node from, const std::vector<Write>& first, const Write& others, std::int64_t least,
            std::optional<std::int64_t> most) {
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

  struct Property {
    std::string name;  // as JSON writes it, with its quotes
    bool required = false;
    Write value;
  };
  // others: of members that are not named; empty: there are none.
  Node object(Node from, const std::vector<Property>& properties,
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

 private:
  // What is the same wherever it stands is a rule of its own.
  template <class Add>
  Node called(std::optional<Rule>& rule, Node from, const Add& add) {
    if (!rule) {
      rule = g_.add_rule();
      add(g_.begin(*rule), g_.end(*rule));
    }
    return g_.call(from, *rule);
  }
  Node separator(Node from, std::string_view text) {
    const Node at = g_.text(from, text), to = g_.text(at, " ");
    g_.link(at, to);
    return to;
  }
  Node comma(Node from) { return separator(from, ","); }
  Node colon(Node from) { return separator(from, ":"); }

  Node digits(Node from) {  // at least one
    const Node to = g_.add();
    g_.bytes(from, '0', '9', to);
    g_.bytes(to, '0', '9', to);
    return to;
  }
  // The integers from this one on.
  void at_least(Node from, const std::string& low, Node to) {
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
  void same_length(Node from, std::string_view low, std::string_view high, Node to) {
    g_.between(from, low, high, {'0', '9'}, to);
  }
  void from_to(Node from, std::int64_t low, std::int64_t high, Node to) {
    if (low > high) return;
    std::string a = std::to_string(low), b = std::to_string(high);
    for (; a.size() < b.size(); a = "1" + std::string(a.size(), '0'))
      same_length(from, a, std::string(a.size(), '9'), to);
    same_length(from, a, b, to);
  }
  // Numbers without a sign.
  void size_between(Node from, Bound low, std::optional<Bound> high, bool fraction, Node to) {
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

  ByteGrammar& g_;
  std::optional<Rule> any_, string_, character_, number_, integer_;
};

class Schema {
 public:
  Schema(ByteGrammar& grammar, element root) : g_(grammar), write_(grammar), root_(root) {}

  Node write(Node from) { return value(from, root_, "schema"); }

 private:
  [[noreturn]] static void wrong(const std::string& where, std::string_view what) {
    fail(Exit::bad_data, where, ": ", what);
  }

  static constexpr int kMostDepth = 200;

  struct Deeper {
    explicit Deeper(int& of) : depth(of) { ++depth; }
    Deeper(const Deeper&) = delete;
    ~Deeper() { --depth; }
    int& depth;
  };

  Node value(Node from, element s, const std::string& where) {
    const Deeper here(depth_);
    if (depth_ > kMostDepth)
      wrong(where, concat("more than ", kMostDepth, " schemas in each other"));
    bool truth = false;
    if (s.get(truth) == simdjson::SUCCESS)
      return truth ? write_.any(from) : g_.add();  // nothing leads to what nothing fits
    simdjson::dom::object object;
    if (s.get(object) != simdjson::SUCCESS) wrong(where, "expected an object, true or false");
    for (const char* const whole : {"$ref", "const", "enum", "anyOf", "oneOf"}) {
      const std::optional<element> found = member(s, whole);
      if (!found) continue;
      const bool listed = std::string_view(whole) == "const" || std::string_view(whole) == "enum";
      for (const auto& [name, unused] : object)
        if (name != whole && !is_among(name, kDescribing) && !(listed && name == "type"))
          wrong(where, concat(name, " beside ", whole, " is not supported"));
      return of_keyword(from, s, whole, *found, concat(where, ".", whole));
    }
    return of_types(from, s, object, where);
  }

  Node of_keyword(Node from, element s, std::string_view keyword, element value_of,
                  const std::string& where) {
    if (keyword == "$ref") return g_.call(from, rule_of(value_of, where));
    if (keyword == "const")
      return has_type(value_of, s, where) ? g_.text(from, simdjson::minify(value_of)) : g_.add();
    simdjson::dom::array list;
    if (value_of.get(list) != simdjson::SUCCESS || list.size() == 0)
      wrong(where, "expected a list that is not empty");
    const Node to = g_.add();
    std::set<std::string> texts;
    std::size_t number = 0;
    for (const element one : list) {
      const std::string place = concat(where, "[", number++, "]");
      if (keyword != "enum")
        g_.link(value(from, one, place), to);
      else if (has_type(one, s, place))
        texts.insert(simdjson::minify(one));
    }
    add_texts(from, texts, to);
    return to;
  }

  // Those that begin alike part where they differ.
  void add_texts(Node from, const std::set<std::string>& texts, Node to) {
    std::vector<Node> path{from};  // behind each byte of the text before
    std::string before;
    for (const std::string& text : texts) {
      const auto [differs, unused] =
          std::mismatch(text.begin(), text.end(), before.begin(), before.end());
      path.resize(static_cast<std::size_t>(differs - text.begin()) + 1);
      for (std::size_t i = path.size() - 1; i < text.size(); ++i)
        path.push_back(g_.text(path.back(), text.substr(i, 1)));
      g_.link(path.back(), to);
      before = text;
    }
  }

  // Whether a value of an enum, or a constant, has one of the types that stand beside it.
  static bool has_type(element one, element s, const std::string& where) {
    const std::optional<element> type = member(s, "type");
    if (!type) return true;
    for (const std::string_view name : types_of(*type, where)) {
      if (name == "string"    ? one.is_string()
          : name == "object"  ? one.is_object()
          : name == "array"   ? one.is_array()
          : name == "number"  ? one.is_number()
          : name == "integer" ? one.is_int64() || one.is_uint64()
          : name == "boolean" ? one.is_bool()
                              : one.is_null())
        return true;
    }
    return false;
  }

  static std::vector<std::string_view> types_of(element type, const std::string& where) {
    std::vector<std::string_view> names;
    const auto add = [&](element one) {
      std::string_view name;
      if (one.get(name) != simdjson::SUCCESS ||
          std::find(std::begin(kTypes), std::end(kTypes), name) == std::end(kTypes))
        wrong(where, "type: expected object, array, string, number, integer, boolean or null");
      names.push_back(name);
    };
    if (simdjson::dom::array list; type.get(list) == simdjson::SUCCESS)
      for (const element one : list) add(one);
    else
      add(type);
    if (names.empty()) wrong(where, "type: an empty list");
    return names;
  }

  Node of_types(Node from, element s, simdjson::dom::object object, const std::string& where) {
    std::vector<std::string_view> types;
    std::string others = " type ";  // keywords of whatever type
    for (const std::string_view type : kTypes) others += keywords_of(type);
    bool asks = false;
    for (const auto& [name, unused] : object) {
      const bool describes = is_among(name, kDescribing);
      if (!describes && !is_among(name, others)) wrong(where, concat(name, " is not supported"));
      asks |= !describes;
    }
    if (!asks) return write_.any(from);
    if (const std::optional<element> type = member(s, "type")) {
      types = types_of(*type, where);
    } else {  // whatever has no keyword may be anything of its type
      types = {"object", "array", "string", "number", "boolean", "null"};
    }
    const Node to = g_.add();
    for (const std::string_view type : types) g_.link(of_type(from, s, type, where), to);
    return to;
  }

  Node of_type(Node from, element s, std::string_view type, const std::string& where) {
    if (type == "object") return of_object(from, s, where);
    if (type == "array") return of_array(from, s, where);
    if (type == "string") return of_string(from, s, where);
    if (type == "number" || type == "integer") return of_number(from, s, type == "integer", where);
    return write_.plain(from, type);
  }

  static std::optional<std::int64_t> length(element s, const char* name, const std::string& where) {
    const std::optional<element> value = member(s, name);
    if (!value) return {};
    std::int64_t number = 0;
    if (value->get(number) != simdjson::SUCCESS || number < 0 || number > kMostLength)
      wrong(where, concat(name, ": expected an integer from 0 to ", kMostLength));
    return number;
  }

  Node of_string(Node from, element s, const std::string& where) {
    const auto least = length(s, "minLength", where), most = length(s, "maxLength", where);
    std::string_view pattern;
    for (const char* const name : {"pattern", "format"}) {
      const std::optional<element> value = member(s, name);
      if (!value) continue;
      if (!pattern.empty() || least || most)
        wrong(where, concat(name, " beside another keyword of strings is not supported"));
      if (value->get(pattern) != simdjson::SUCCESS)
        wrong(where, concat(name, ": expected a string"));
      try {
        if (name == std::string_view("format")) pattern = pattern_of_format(pattern);
        return write_.string_of_pattern(from, pattern);
      } catch (const Error& error) {
        wrong(where, error.what());
      }
    }
    if (most && *most < least.value_or(0)) wrong(where, "maxLength is less than minLength");
    if (least || most) return write_.string_of_length(from, least.value_or(0), most);
    return write_.string(from);
  }

  static std::optional<Writer::Bound> bound(element s, const char* name, const char* exclusive,
                                            bool integer, bool is_low, const std::string& where) {
    std::optional<Writer::Bound> found;
    for (const char* const keyword : {name, exclusive}) {
      const std::optional<element> value = member(s, keyword);
      if (!value) continue;
      double number = 0;
      constexpr double kMost = 1e15;
      if (!value->is_number() || value->get(number) != simdjson::SUCCESS ||
          std::abs(number) > kMost)
        wrong(where, concat(keyword, ": expected a number of at most 1e15"));
      bool itself = keyword == name;
      double rounded = number;
      if (number != std::floor(number)) {
        if (!integer) wrong(where, concat(keyword, ": a bound with a fraction is not supported"));
        rounded = is_low ? std::ceil(number) : std::floor(number);
        itself = true;
      }
      const auto whole = static_cast<std::int64_t>(rounded);
      const bool tighter = !found || (is_low ? whole > found->value : whole < found->value) ||
                           (whole == found->value && !itself);
      if (tighter) found = Writer::Bound{whole, itself};
    }
    return found;
  }

  Node of_number(Node from, element s, bool integer, const std::string& where) {
    const auto low = bound(s, "minimum", "exclusiveMinimum", integer, true, where),
               high = bound(s, "maximum", "exclusiveMaximum", integer, false, where);
    if (low || high) return write_.bounded(from, low, high, !integer);
    return integer ? write_.integer(from) : write_.number(from);
  }

  // What a schema may be at, as a rule: each element of it is written once.
  Writer::Write written(element s, const std::string& where) {
    return [this, s, where, rule = std::optional<Rule>()](Node from) mutable {
      if (!rule) {
        rule = g_.add_rule();
        g_.link(value(g_.begin(*rule), s, where), g_.end(*rule));
      }
      return g_.call(from, *rule);
    };
  }

  Node of_array(Node from, element s, const std::string& where) {
    std::vector<Writer::Write> first;
    if (const std::optional<element> items = member(s, "prefixItems")) {
      simdjson::dom::array list;
      if (items->get(list) != simdjson::SUCCESS) wrong(where, "prefixItems: expected a list");
      for (const element one : list)
        first.push_back(written(one, concat(where, ".prefixItems[", first.size(), "]")));
    }
    const auto least = length(s, "minItems", where), most = length(s, "maxItems", where);
    if (most && *most < least.value_or(0)) wrong(where, "maxItems is less than minItems");
    const std::optional<element> items = member(s, "items");
    bool any = true;
    const bool none = items && items->get(any) == simdjson::SUCCESS && !any;
    Writer::Write others = [this](Node at) { return write_.any(at); };
    if (none)
      others = {};
    else if (items)
      others = written(*items, where + ".items");
    return write_.list(from, first, others, least.value_or(0), most);
  }

  Node of_object(Node from, element s, const std::string& where) {
    std::vector<Writer::Property> properties;
    std::set<std::string> names, required;
    if (const std::optional<element> listed = member(s, "required")) {
      simdjson::dom::array list;
      if (listed->get(list) != simdjson::SUCCESS) wrong(where, "required: expected a list");
      for (const element one : list) {
        std::string_view name;
        if (one.get(name) != simdjson::SUCCESS || name.size() > kMostLength)
          wrong(where, "required: expected strings of at most 4096 bytes");
        required.emplace(name);
      }
    }
    if (const std::optional<element> all = member(s, "properties")) {
      simdjson::dom::object object;
      if (all->get(object) != simdjson::SUCCESS) wrong(where, "properties: expected an object");
      for (const auto& [key, property] : object) {
        const std::string name(key);
        if (name.size() > kMostLength) wrong(where, "properties: a name of more than 4096 bytes");
        if (!names.insert(name).second) wrong(where, concat("properties: ", name, " comes twice"));
        properties.push_back({json_quoted(name), required.erase(name) > 0,
                              written(property, concat(where, ".", name))});
      }
    }
    Writer::Write others = [this](Node at) { return write_.any(at); };
    bool any = true;
    if (const std::optional<element> rest = member(s, "additionalProperties")) {
      if (rest->get(any) != simdjson::SUCCESS)
        others = written(*rest, where + ".additionalProperties");
      else if (!any)
        others = {};
    }
    for (const std::string& name : required) {
      if (!others) wrong(where, concat("required: ", name, " is none of the properties"));
      names.insert(name);
      properties.push_back({json_quoted(name), true, others});
    }
    return write_.object(from, properties, names, others);
  }

  Rule rule_of(element reference, const std::string& where) {
    std::string_view name;
    if (reference.get(name) != simdjson::SUCCESS) wrong(where, "expected a string");
    const auto [known, is_new] = rules_.try_emplace(std::string(name), 0);
    if (!is_new) return known->second;
    const Rule rule = g_.add_rule();
    known->second = rule;
    std::optional<element> found;
    if (name == "#") found = root_;
    for (const std::string_view defs : {"$defs", "definitions"}) {
      const std::string before = concat("#/", defs, "/");
      const std::optional<element> all = member(root_, defs);
      if (all && name.starts_with(before)) found = member(*all, name.substr(before.size()));
    }
    if (!found) wrong(where, concat(name, ": expected # or a name in #/$defs/ or #/definitions/"));
    g_.link(value(g_.begin(rule), *found, std::string(name)), g_.end(rule));
    return rule;
  }

  ByteGrammar& g_;
  Writer write_;
  element root_;
  std::map<std::string, Rule> rules_;
  int depth_ = 0;  // of the schema that is being written: how many it lies in, itself too
};

}  // namespace

ByteGrammar grammar_of_json_object() {
  ByteGrammar grammar;
  grammar.add_rule();
  grammar.link(Writer(grammar).plain(grammar.begin(0), "object"), grammar.end(0));
  return grammar;
}

ByteGrammar::Node add_schema(ByteGrammar& grammar, ByteGrammar::Node from, element schema) {
  return Schema(grammar, schema).write(from);
}

ByteGrammar grammar_of_schema(element schema) {
  ByteGrammar grammar;
  grammar.add_rule();
  grammar.link(add_schema(grammar, grammar.begin(0), schema), grammar.end(0));
  try {
    grammar.finish();
  } catch (const Error& error) {
    fail(Exit::bad_data, "schema: ", error.what());
  }
  return grammar;
}

}  // namespace mt
