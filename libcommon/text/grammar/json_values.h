// JsonValues: values of JSON in a grammar, of any type or within bounds, lengths and names; how
// their texts are written: json_text.h.  What a schema asks for is read in json_schema.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/grammar/byte_grammar.h"

namespace mt {

// Each function that has a node `from` adds what it is named after there, and returns the node
// behind it.  The grammar is to live longer.
class JsonValues {
 public:
  using Node = ByteGrammar::Node;
  using Rule = ByteGrammar::Rule;
  using Write = std::function<Node(Node)>;  // adds a value behind a node; returns the one behind it

  explicit JsonValues(ByteGrammar& grammar) : g_(grammar) {}

  Node any(Node from);
  // Anything of a type of JSON schemas other than "integer".
  Node plain(Node from, std::string_view type);

  Node string(Node from);
  Node string_of_length(Node from, std::int64_t least, std::optional<std::int64_t> most);
  Node string_of_pattern(Node from, std::string_view pattern);

  Node number(Node from);
  Node integer(Node from);
  struct Bound {
    std::int64_t value = 0;
    bool itself = true;
  };
  // Writes a number with a fraction, or an integer, without an exponent.
  Node bounded(Node from, std::optional<Bound> low, std::optional<Bound> high, bool fraction);

  // first: of the values that a list begins with; others: of those behind them; empty: there are
  // none.
  Node list(Node from, const std::vector<Write>& first, const Write& others, std::int64_t least,
            std::optional<std::int64_t> most);
  struct Property {
    std::string name;  // as JSON writes it, with its quotes
    bool required = false;
    Write value;
  };
  // others: of members whose name is not among `names`; empty: there are none.
  Node object(Node from, const std::vector<Property>& properties,
              const std::set<std::string>& names, const Write& others);

 private:
  template <class Add>
  Node called(std::optional<Rule>& rule, Node from, const Add& add);
  Node character(Node from);
  Node other_name(Node from, const std::set<std::string>& names);
  Node separator(Node from, std::string_view text);
  Node comma(Node from) { return separator(from, ","); }
  Node colon(Node from) { return separator(from, ":"); }
  Node digits(Node from);
  void at_least(Node from, const std::string& low, Node to);
  void same_length(Node from, std::string_view low, std::string_view high, Node to);
  void from_to(Node from, std::int64_t low, std::int64_t high, Node to);
  void size_between(Node from, Bound low, std::optional<Bound> high, bool fraction, Node to);

  ByteGrammar& g_;
  std::optional<Rule> any_, string_, character_, number_, integer_;
};

}  // namespace mt
