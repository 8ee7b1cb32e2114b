#include "data/corpus/punkt.h"

#include <algorithm>
#include <optional>

#include "base/utf8.h"
#include "data/corpus/punkt_words.h"

namespace mt {
namespace {

constexpr std::size_t kPieceCharacters = 1'000'000;

struct Range {
  std::size_t begin = 0, end = 0;
};

// A place where a sentence may end.
struct Candidate {
  std::size_t begin = 0, end = 0;  // the mark; with kept newlines also word before and space behind
  std::size_t context_end = 0;     // of what is looked at behind it
  std::size_t next = 0;            // where the next sentence would begin
};

std::size_t skip_spaces(std::u32string_view text, std::size_t at) {
  while (at < text.size() && is_python_space(text[at])) ++at;
  return at;
}

std::size_t skip_word(std::u32string_view text, std::size_t at) {
  while (at < text.size() && !is_python_space(text[at])) ++at;
  return at;
}

// Python's string.whitespace: ASCII's only, unlike is_python_space().
bool is_ascii_space(char32_t c) { return c == U' ' || (c >= 0x09 && c <= 0x0D); }

// The candidate whose mark is text[mark], if there is one.
std::optional<Candidate> candidate_at(std::u32string_view text, std::size_t mark) {
  const std::size_t end = mark + 1;
  if (end == text.size()) return std::nullopt;
  if (is_non_word(text[end])) return Candidate{mark, end, end + 1, end};
  const std::size_t next = skip_spaces(text, end);
  if (next == end || next == text.size()) return std::nullopt;
  return Candidate{mark, end, skip_word(text, next), next};
}

// The candidate at a mark as upstream's pattern for kept newlines has it; `begin`: where the word
// with the mark begins, or what is left of it.
std::optional<Candidate> keeping_candidate_at(std::u32string_view text, std::size_t begin,
                                              std::size_t mark) {
  const std::size_t next = skip_spaces(text, mark + 1);
  if (next == text.size()) return std::nullopt;
  if (is_non_word(text[next])) return Candidate{begin, next, next + 1, next};
  return Candidate{begin, next, skip_word(text, next), next};
}

// All candidates, first to last.
template <class Body>
void for_each_mark(std::u32string_view text, Body&& body) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (is_sentence_end(text[i]))
      if (const auto candidate = candidate_at(text, i)) body(*candidate);
}

// At most one a word: its last mark that has something behind it.
template <class Body>
void for_each_marked_word(std::u32string_view text, Body&& body) {
  for (std::size_t begin = skip_spaces(text, 0); begin < text.size();) {
    const std::size_t end = skip_word(text, begin);
    std::optional<Candidate> found;
    for (std::size_t mark = end; mark-- > begin && !found;)
      if (is_sentence_end(text[mark])) found = keeping_candidate_at(text, begin, mark);
    if (found) body(*found);
    begin = skip_spaces(text, end);
  }
}

// Sentences, one after another; add() takes the candidates.
class Sentences {
 public:
  Sentences(const PunktModel& model, std::u32string_view text) : model_(model), text_(text) {}

  // The words before two candidates may overlap, as for each mark of "!!!"; the last one counts.
  void add(const Candidate& candidate) {
    std::size_t begin = word_.begin;
    for (std::size_t i = candidate.begin; i > word_.end + 1; --i) {
      if (!is_ascii_space(text_[i - 1])) continue;
      begin = i;
      break;
    }
    if (any_ && word_.end <= begin) judge();
    any_ = true;
    previous_ = candidate;
    word_ = {begin, candidate.begin};
  }

  std::vector<Range> finish() {
    if (any_) judge();
    std::size_t end = text_.size();
    while (end > 0 && is_python_space(text_[end - 1])) --end;
    ranges_.push_back({begin_, std::max(begin_, end)});
    return std::move(ranges_);
  }

 private:
  void judge() {
    if (!model_.ends_sentence(text_.substr(word_.begin, previous_.context_end - word_.begin)))
      return;
    ranges_.push_back({begin_, previous_.end});
    begin_ = previous_.next;
  }

  const PunktModel& model_;
  std::u32string_view text_;
  Range word_;  // before the previous candidate
  Candidate previous_;
  bool any_ = false;       // there is a previous candidate
  std::size_t begin_ = 0;  // of the sentence that has not ended yet
  std::vector<Range> ranges_;
};

// How much of `sentence` closes the one before: the fewest closing marks with white space, "--" or
// the end of a line behind them.  `end` is where the marks end, `next` where the sentence begins.
struct Closing {
  std::size_t end = 0, next = 0;
};
std::optional<Closing> closing_of(std::u32string_view sentence) {
  for (std::size_t i = 0; i < sentence.size(); ++i) {
    if (i > 0 && is_python_space(sentence[i])) return Closing{i, skip_spaces(sentence, i)};
    if (i > 0 && sentence.substr(i).starts_with(U"--")) return Closing{i, i};
    if (std::u32string_view(U"\"')]}").find(sentence[i]) == std::u32string_view::npos)
      return std::nullopt;
  }
  if (sentence.empty()) return std::nullopt;
  return Closing{sentence.size(), sentence.size()};
}

std::vector<Range> realigned(std::u32string_view text, const std::vector<Range>& ranges) {
  std::vector<Range> result;
  std::size_t moved = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    Range range = {ranges[i].begin + moved, ranges[i].end};
    moved = 0;
    if (i + 1 < ranges.size()) {
      const Range& next = ranges[i + 1];
      if (const auto closing = closing_of(text.substr(next.begin, next.end - next.begin))) {
        range.end = next.begin + closing->end;
        moved = closing->next;
      }
    }
    if (range.begin < range.end) result.push_back(range);
  }
  return result;
}

}  // namespace

void PunktSplitter::split(std::string_view text, std::vector<std::string_view>& sentences) const {
  std::u32string points;
  std::vector<std::size_t> offsets;  // of each point, and of the end
  for (std::size_t at = 0; at < text.size();) {
    points.clear();
    offsets.clear();
    while (at < text.size() && points.size() < kPieceCharacters) {
      offsets.push_back(at);
      points.push_back(next_code_point(text, at));
    }
    offsets.push_back(at);
    Sentences found(model_, points);
    const auto add = [&](const Candidate& candidate) { found.add(candidate); };
    if (keep_newlines_)
      for_each_marked_word(points, add);
    else
      for_each_mark(points, add);
    for (const Range& range : realigned(points, found.finish()))
      sentences.push_back(
          text.substr(offsets[range.begin], offsets[range.end] - offsets[range.begin]));
  }
}

}  // namespace mt
