// ByteGrammar: which texts may be written, byte by byte: rules, each an automaton whose ways are
// bytes, nothing, or the whole of a rule, which may be the same one again.  Built once, from a
// schema say (json_schema.h); a GrammarText then follows a text along it.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mt {

class ByteGrammar {
 public:
  using Node = std::int32_t;
  using Rule = std::int32_t;
  static constexpr std::size_t kMostNodes = 200'000;  // beyond them fail(Exit::bad_data)

  struct Bytes {
    std::uint8_t low = 0, high = 0;
    Node to = 0;
  };
  struct Call {
    Rule rule = 0;
    Node to = 0;
  };
  struct Ways {
    std::vector<Bytes> bytes;
    std::vector<Node> empty;
    std::vector<Call> calls;
    Rule ends = -1;  // the rule whose text is whole here
  };

  // Rule 0 is the whole text; a rule has its first node and an end at once.
  Rule add_rule();
  Node begin(Rule rule) const { return rules_[static_cast<std::size_t>(rule)].begin; }
  Node end(Rule rule) const { return rules_[static_cast<std::size_t>(rule)].end; }
  std::size_t rules() const { return rules_.size(); }

  Node add();
  void link(Node from, Node to) { at(from).empty.push_back(to); }
  void bytes(Node from, std::uint8_t low, std::uint8_t high, Node to) {
    at(from).bytes.push_back({low, high, to});
  }
  // Each returns the node behind what it adds.
  Node text(Node from, std::string_view text);
  Node call(Node from, Rule rule);
  // One of some texts: those that begin alike part where they differ.
  void texts(Node from, const std::set<std::string>& texts, Node to);
  // The texts from `low` to `high`, as long as each other, whose bytes behind the first are any of
  // an alphabet's, which follow one another.
  struct Alphabet {
    char low, high;
  };
  void between(Node from, std::string_view low, std::string_view high, Alphabet of, Node to);
  // UTF-8 of the code points from `low` to `high`, surrogates left out.
  void points(Node from, char32_t low, char32_t high, Node to);
  // From the nodes from `first` on, where this byte might come this text comes instead.
  void write_as(Node first, std::uint8_t byte, std::string_view text);

  // To be called once everything is added: leaves out what leads to no end.  Exit::bad_data where
  // nothing is left, or a rule begins with itself.
  void finish();

  const Ways& ways(Node node) const { return nodes_[static_cast<std::size_t>(node)]; }
  std::size_t nodes() const { return nodes_.size(); }

 private:
  struct Ends {
    Node begin = 0, end = 0;
  };
  Ways& at(Node node) { return nodes_[static_cast<std::size_t>(node)]; }
  std::vector<bool> nodes_that_end() const;
  std::vector<bool> empty_rules() const;
  void check_starts() const;

  std::vector<Ways> nodes_;
  std::vector<Ends> rules_;
};

// One of some texts.
ByteGrammar grammar_of_texts(const std::set<std::string>& texts);

// GrammarText: a text that is written along a grammar, which must outlive it: all the places where
// it may be by now.  Small to copy; what it copies shares the places' rules with it.
class GrammarText {
 public:
  static constexpr std::size_t kMostPlaces = 2000;  // beyond them fail(Exit::bad_data)
  using Stack = std::int32_t;                       // of the rules that are not whole yet; -1: none
  struct Place {
    ByteGrammar::Node node = 0;
    Stack stack = -1;
    bool operator==(const Place&) const = default;
  };
  // What a byte may follow; whether the text may end here.
  struct Places {
    std::vector<Place> all;
    bool whole = false;

    bool none() const { return all.empty() && !whole; }
  };

  explicit GrammarText(const ByteGrammar& grammar) : grammar_(&grammar) {}

  Places at_beginning() { return from(grammar_->begin(0), -1); }
  Places behind(const Places& places, std::uint8_t byte);
  // Where one is once the inner rule of a stack is whole; of none: the text is.
  Places behind_rule(Stack stack);

  // The places that at_beginning(), behind() and behind_rule() have looked at so far: their cost.
  std::int64_t looked_at() const { return looked_at_; }

  // The nodes at which the rules of a stack go on, the inner ones first.
  std::vector<ByteGrammar::Node> returns(Stack stack) const;

 private:
  Places from(ByteGrammar::Node node, Stack stack);  // where one is at `node`
  void begin_seen();
  struct Seen {
    Place place;
    std::uint32_t round = 0;
  };
  Seen& slot_of(Place place);
  bool see(Place place);  // whether it was not seen since begin_seen()
  void add(Places& to, ByteGrammar::Node node, Stack stack);
  Stack push(ByteGrammar::Node back, Stack below);

  const ByteGrammar* grammar_;
  std::vector<std::pair<ByteGrammar::Node, Stack>> stacks_;  // where to go on, and what is below
  std::map<std::pair<ByteGrammar::Node, Stack>, Stack> known_;
  // A hash table of places, those of `round_`, whose size is a power of 2, at most half of it full.
  std::vector<Seen> seen_;
  std::size_t num_seen_ = 0;
  std::uint32_t round_ = 0;
  std::int64_t looked_at_ = 0;
};

}  // namespace mt
