#include "text/grammar/byte_grammar.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace mt {

// --- Building -----------------------------------------------------------------------------------

ByteGrammar::Node ByteGrammar::add() {
  if (nodes_.size() == kMostNodes) fail(Exit::bad_data, "has more than ", kMostNodes, " states");
  nodes_.emplace_back();
  return static_cast<Node>(nodes_.size()) - 1;
}

ByteGrammar::Rule ByteGrammar::add_rule() {
  const auto rule = static_cast<Rule>(rules_.size());
  rules_.push_back({add(), add()});
  at(end(rule)).ends = rule;
  return rule;
}

ByteGrammar::Node ByteGrammar::text(Node from, std::string_view text) {
  for (const char c : text) {
    const Node to = add();
    bytes(from, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c), to);
    from = to;
  }
  return from;
}

void ByteGrammar::texts(Node from, const std::set<std::string>& texts, Node to) {
  std::vector<Node> path{from};  // behind each byte of the text before
  std::string before;
  for (const std::string& text : texts) {
    const auto [differs, unused] =
        std::mismatch(text.begin(), text.end(), before.begin(), before.end());
    path.resize(static_cast<std::size_t>(differs - text.begin()) + 1);
    for (std::size_t i = path.size() - 1; i < text.size(); ++i)
      path.push_back(this->text(path.back(), text.substr(i, 1)));
    link(path.back(), to);
    before = text;
  }
}

ByteGrammar::Node ByteGrammar::call(Node from, Rule rule) {
  const Node to = add();
  at(from).calls.push_back({rule, to});
  return to;
}

void ByteGrammar::between(Node from, std::string_view low, std::string_view high, Alphabet of,
                          Node to) {
  const auto byte = [](char c) { return static_cast<std::uint8_t>(c); };
  const std::uint8_t first = byte(low[0]), last = byte(high[0]);
  if (low.size() == 1) return bytes(from, first, last, to);
  const std::string lowest(low.size() - 1, of.low), highest(low.size() - 1, of.high);
  const auto below = [&](int begin, int end, std::string_view a, std::string_view b) {
    if (begin > end) return;
    const Node next = add();
    bytes(from, static_cast<std::uint8_t>(begin), static_cast<std::uint8_t>(end), next);
    between(next, a, b, of, to);
  };
  if (first == last) return below(first, last, low.substr(1), high.substr(1));
  const bool from_lowest = low.substr(1) == lowest, to_highest = high.substr(1) == highest;
  if (!from_lowest) below(first, first, low.substr(1), highest);
  below(first + (from_lowest ? 0 : 1), last - (to_highest ? 0 : 1), lowest, highest);
  if (!to_highest) below(last, last, lowest, high.substr(1));
}

void ByteGrammar::points(Node from, char32_t low, char32_t high, Node to) {
  // The runs of code points with as many bytes each.
  static constexpr std::pair<char32_t, char32_t> kRuns[] = {
      {0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}};
  for (const auto& [first, last] : kRuns) {
    if (high < first || low > last) continue;
    std::string a, b;
    append_utf8(a, std::max(low, first));
    append_utf8(b, std::min(high, last));
    between(from, a, b, {'\x80', '\xBF'}, to);
  }
}

void ByteGrammar::write_as(Node first, std::uint8_t byte, std::string_view text) {
  const Node behind = add();  // all that is there by now
  for (Node node = first; node < behind; ++node)
    for (const Bytes& way : std::exchange(at(node).bytes, {})) {
      if (byte < way.low || byte > way.high) {
        at(node).bytes.push_back(way);
        continue;
      }
      if (way.low < byte) bytes(node, way.low, static_cast<std::uint8_t>(byte - 1), way.to);
      if (byte < way.high) bytes(node, static_cast<std::uint8_t>(byte + 1), way.high, way.to);
      link(this->text(node, text), way.to);
    }
}

// From where the end of the rule can be reached.
std::vector<bool> ByteGrammar::nodes_that_end() const {
  std::vector<bool> live(nodes_.size());
  std::vector<std::vector<Node>> before(nodes_.size());                  // over a byte or nothing
  std::vector<std::vector<std::pair<Node, Call>>> calls(nodes_.size());  // by both nodes they need
  std::vector<Node> left;
  const auto reach = [&](Node node) {
    if (!live[static_cast<std::size_t>(node)]) left.push_back(node);
    live[static_cast<std::size_t>(node)] = true;
  };
  for (Node node = 0; node < std::ssize(nodes_); ++node) {
    const Ways& here = ways(node);
    for (const Bytes& way : here.bytes) before[static_cast<std::size_t>(way.to)].push_back(node);
    for (const Node to : here.empty) before[static_cast<std::size_t>(to)].push_back(node);
    for (const Call& way : here.calls)
      for (const Node needed : {way.to, begin(way.rule)})
        calls[static_cast<std::size_t>(needed)].emplace_back(node, way);
    if (here.ends >= 0) reach(node);
  }
  while (!left.empty()) {
    const auto node = static_cast<std::size_t>(left.back());
    left.pop_back();
    for (const Node from : before[node]) reach(from);
    for (const auto& [from, way] : calls[node])
      if (live[static_cast<std::size_t>(way.to)] && live[static_cast<std::size_t>(begin(way.rule))])
        reach(from);
  }
  return live;
}

// The rules whose end can be reached over no byte at all.
std::vector<bool> ByteGrammar::empty_rules() const {
  std::vector<bool> ends(rules_.size()), known(nodes_.size());
  std::vector<std::vector<Node>> behind(rules_.size());  // what is reached once a rule ends
  std::vector<Node> left;
  const auto reach = [&](Node to) {
    if (!known[static_cast<std::size_t>(to)]) left.push_back(to);
    known[static_cast<std::size_t>(to)] = true;
  };
  for (const Ends& rule : rules_) reach(rule.begin);
  while (!left.empty()) {
    const Ways& here = ways(left.back());
    left.pop_back();
    for (const Node to : here.empty) reach(to);
    for (const Call& way : here.calls) {
      const auto rule = static_cast<std::size_t>(way.rule);
      ends[rule] ? reach(way.to) : behind[rule].push_back(way.to);
    }
    if (here.ends < 0) continue;
    const auto rule = static_cast<std::size_t>(here.ends);
    ends[rule] = true;
    for (const Node to : std::exchange(behind[rule], {})) reach(to);
  }
  return ends;
}

void ByteGrammar::finish() {
  const std::vector<bool> live = nodes_that_end();
  const auto dead = [&](Node node) { return !live[static_cast<std::size_t>(node)]; };
  if (dead(begin(0))) fail(Exit::bad_data, "no text of finite length fits");
  for (Ways& here : nodes_) {
    std::erase_if(here.bytes, [&](const Bytes& way) { return dead(way.to); });
    std::erase_if(here.empty, dead);
    std::erase_if(here.calls,
                  [&](const Call& way) { return dead(way.to) || dead(begin(way.rule)); });
  }
  check_starts();
}

void ByteGrammar::check_starts() const {
  // From rule to rule over no byte: none may come to itself.
  const std::vector<bool> empty = empty_rules();
  std::vector<std::vector<Rule>> first(rules_.size());
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
    std::vector<Node> nodes{rules_[rule].begin};
    std::vector<bool> known(nodes_.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto reach = [&](Node to) {
        if (!known[static_cast<std::size_t>(to)]) nodes.push_back(to);
        known[static_cast<std::size_t>(to)] = true;
      };
      const Ways& here = ways(nodes[i]);
      for (const Node to : here.empty) reach(to);
      for (const Call& way : here.calls) {
        first[rule].push_back(way.rule);
        if (empty[static_cast<std::size_t>(way.rule)]) reach(way.to);
      }
    }
  }
  enum class Mark : std::uint8_t { none, open, done };
  std::vector<Mark> marks(rules_.size());
  const auto visit = [&](const auto& self, Rule rule) -> void {
    Mark& mark = marks[static_cast<std::size_t>(rule)];
    if (mark == Mark::open) fail(Exit::bad_data, "is defined by nothing but itself");
    if (mark == Mark::done) return;
    mark = Mark::open;
    for (const Rule next : first[static_cast<std::size_t>(rule)]) self(self, next);
    marks[static_cast<std::size_t>(rule)] = Mark::done;
  };
  for (std::size_t rule = 0; rule < rules_.size(); ++rule) visit(visit, static_cast<Rule>(rule));
}

ByteGrammar grammar_of_texts(const std::set<std::string>& texts) {
  ByteGrammar grammar;
  const ByteGrammar::Rule all = grammar.add_rule();
  grammar.texts(grammar.begin(all), texts, grammar.end(all));
  grammar.finish();
  return grammar;
}

// --- Following a text ---------------------------------------------------------------------------

GrammarText::Stack GrammarText::push(ByteGrammar::Node back, Stack below) {
  const auto [found, is_new] =
      known_.try_emplace({back, below}, static_cast<Stack>(stacks_.size()));
  if (is_new) stacks_.emplace_back(back, below);
  return found->second;
}

std::vector<ByteGrammar::Node> GrammarText::returns(Stack stack) const {
  std::vector<ByteGrammar::Node> nodes;
  for (; stack >= 0; stack = stacks_[static_cast<std::size_t>(stack)].second)
    nodes.push_back(stacks_[static_cast<std::size_t>(stack)].first);
  return nodes;
}

void GrammarText::begin_seen() {
  num_seen_ = 0;
  if (++round_ > 0) return;
  seen_.clear();
  round_ = 1;
}

// Where a place is, or would be: linear probing with multiplicative hashing (Knuth, The Art of
// Computer Programming 3, 6.4).
GrammarText::Seen& GrammarText::slot_of(Place place) {
  const std::uint64_t key = std::uint64_t{static_cast<std::uint32_t>(place.node)} << 32 |
                            static_cast<std::uint32_t>(place.stack);
  const std::size_t last = seen_.size() - 1;
  std::size_t at = key * 0x9E3779B97F4A7C15 >> 32 & last;
  while (seen_[at].round == round_ && seen_[at].place != place) at = (at + 1) & last;
  return seen_[at];
}

bool GrammarText::see(Place place) {
  if (2 * num_seen_ >= seen_.size()) {
    const std::vector<Seen> before =
        std::exchange(seen_, std::vector<Seen>(std::max<std::size_t>(16, 2 * seen_.size())));
    for (const Seen& seen : before)
      if (seen.round == round_) slot_of(seen.place) = seen;
  }
  Seen& slot = slot_of(place);
  if (slot.round == round_) return false;
  if (num_seen_++ == kMostPlaces)
    fail(Exit::bad_data, "the grammar leaves more than ", kMostPlaces, " ways open at once");
  slot = {place, round_};
  return true;
}

// Over ways of nothing, into rules and out of whole ones.
void GrammarText::add(Places& to, ByteGrammar::Node node, Stack stack) {
  const Place place{node, stack};
  ++looked_at_;
  if (!see(place)) return;
  const ByteGrammar::Ways& ways = grammar_->ways(node);
  if (!ways.bytes.empty()) to.all.push_back(place);
  for (const ByteGrammar::Node next : ways.empty) add(to, next, stack);
  for (const ByteGrammar::Call& way : ways.calls)
    add(to, grammar_->begin(way.rule), push(way.to, stack));
  if (ways.ends < 0) return;
  if (stack < 0) {
    to.whole = true;
  } else {
    const auto [back, below] = stacks_[static_cast<std::size_t>(stack)];
    add(to, back, below);
  }
}

GrammarText::Places GrammarText::from(ByteGrammar::Node node, Stack stack) {
  Places places;
  begin_seen();
  add(places, node, stack);
  return places;
}

GrammarText::Places GrammarText::behind_rule(Stack stack) {
  if (stack < 0) return {.all = {}, .whole = true};
  const auto [back, below] = stacks_[static_cast<std::size_t>(stack)];
  return from(back, below);
}

GrammarText::Places GrammarText::behind(const Places& places, std::uint8_t byte) {
  Places next;
  begin_seen();
  looked_at_ += std::ssize(places.all);
  for (const Place& place : places.all)
    for (const ByteGrammar::Bytes& way : grammar_->ways(place.node).bytes)
      if (way.low <= byte && byte <= way.high) add(next, way.to, place.stack);
  return next;
}

}  // namespace mt
