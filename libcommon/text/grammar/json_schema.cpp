#include "text/grammar/json_schema.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "base/json_object.h"
#include "text/grammar/json_text.h"
#include "text/grammar/json_values.h"

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

class Schema {
 public:
  Schema(ByteGrammar& grammar, element root) : g_(grammar), write_(grammar), root_(root) {}

  Node write(Node from, element schema) { return value(from, schema, "schema"); }

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
    g_.texts(from, texts, to);
    return to;
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

  static std::optional<JsonValues::Bound> bound(element s, const char* name, const char* exclusive,
                                                bool integer, bool is_low,
                                                const std::string& where) {
    std::optional<JsonValues::Bound> found;
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
      if (tighter) found = JsonValues::Bound{whole, itself};
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
  JsonValues::Write written(element s, const std::string& where) {
    return [this, s, where, rule = std::optional<Rule>()](Node from) mutable {
      if (!rule) {
        rule = g_.add_rule();
        g_.link(value(g_.begin(*rule), s, where), g_.end(*rule));
      }
      return g_.call(from, *rule);
    };
  }

  Node of_array(Node from, element s, const std::string& where) {
    std::vector<JsonValues::Write> first;
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
    JsonValues::Write others = [this](Node at) { return write_.any(at); };
    if (none)
      others = {};
    else if (items)
      others = written(*items, where + ".items");
    return write_.list(from, first, others, least.value_or(0), most);
  }

  Node of_object(Node from, element s, const std::string& where) {
    std::vector<JsonValues::Property> properties;
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
    JsonValues::Write others = [this](Node at) { return write_.any(at); };
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
  JsonValues write_;
  element root_;
  std::map<std::string, Rule> rules_;
  int depth_ = 0;  // of the schema that is being written: how many it lies in, itself too
};

}  // namespace

ByteGrammar grammar_of_json_object() {
  ByteGrammar grammar;
  grammar.add_rule();
  grammar.link(JsonValues(grammar).plain(grammar.begin(0), "object"), grammar.end(0));
  return grammar;
}

ByteGrammar::Node add_schema(ByteGrammar& grammar, ByteGrammar::Node from, element schema,
                             element root) {
  return Schema(grammar, root).write(from, schema);
}

ByteGrammar grammar_of_schema(element schema) {
  ByteGrammar grammar;
  grammar.add_rule();
  grammar.link(add_schema(grammar, grammar.begin(0), schema, schema), grammar.end(0));
  try {
    grammar.finish();
  } catch (const Error& error) {
    fail(Exit::bad_data, "schema: ", error.what());
  }
  return grammar;
}

}  // namespace mt
