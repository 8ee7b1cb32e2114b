#include "text/hf/hf_pre_tokenizer.h"

#include <array>
#include <utility>

#include "base/json_object.h"
#include "base/utf8.h"
#include "text/bpe/byte_map.h"
#include "text/bpe/gpt2_split.h"
#include "text/hf/hf_patterns.h"
#include "text/hf/hf_properties.h"
#include "text/hf/hf_regex.h"
#include "text/hf/hf_tables.h"
#include "text/unicode/unicode.h"
#include "text/unicode/utf8_length.h"

namespace mt {
namespace {

// --- What is a match. ---

template <class Predicate>
HfMatcher match_characters(Predicate predicate) {
  return [predicate](std::string_view word, std::vector<HfPart>& parts) {
    std::size_t last = 0;  // the end of the last part
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t before = at;
      if (!predicate(next_valid_code_point(word, at))) continue;
      if (before > last) parts.push_back({before, false});
      parts.push_back({last = at, true});
    }
    if (last < word.size()) parts.push_back({word.size(), false});
  };
}

HfMatcher match_text(std::string text) {
  return [text = std::move(text)](std::string_view word, std::vector<HfPart>& parts) {
    std::size_t last = 0;
    for (std::size_t at; (at = word.find(text, last)) != word.npos;) {
      if (at > last) parts.push_back({at, false});
      parts.push_back({last = at + text.size(), true});
    }
    if (last < word.size()) parts.push_back({word.size(), false});
  };
}

// Runs of `length` characters, all of them matches.
HfMatcher match_runs(std::int64_t length) {
  return [length](std::string_view word, std::vector<HfPart>& parts) {
    std::int64_t taken = 0;
    for (std::size_t at = 0; at < word.size();) {
      next_valid_code_point(word, at);
      if (++taken % length == 0 || at == word.size()) parts.push_back({at, true});
    }
  };
}

// Runs of characters of one script.  What goes with any, a space for instance, is part of the run
// before it; before the first run it is no match.
void match_scripts(std::string_view word, std::vector<HfPart>& parts) {
  int last = -1;  // the script of the run that is open; -1: none is
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t before = at;
    const int script = hf_script(next_valid_code_point(word, at));
    if (script >= 0 && script != last && before > 0) parts.push_back({before, last >= 0});
    if (script >= 0) last = script;
  }
  if (!word.empty()) parts.push_back({word.size(), last >= 0});
}

// A splitter's pieces are the matches of its pattern and leave nothing between.
HfMatcher match_pieces(Splitter splitter) {
  return [splitter](std::string_view word, std::vector<HfPart>& parts) {
    std::array<std::size_t, 256> ends;
    for (std::size_t at = 0; at < word.size(); at = parts.back().end) {
      const std::size_t count = splitter(word, at, ends);
      for (std::size_t i = 0; i < count; ++i) parts.push_back({ends[i], true});
    }
  };
}

// Objects, so that what asks for each character has them inlined.
constexpr auto is_space = [](char32_t point) { return category(point) == Category::space; };
constexpr auto is_punctuation = [](char32_t point) { return hf_is(point, HfFlag::punctuation); };
constexpr auto is_numeric = [](char32_t point) { return hf_is(point, HfFlag::numeric); };

// Each match of \w+|[^\w\s]+ is a part.
void match_words(std::string_view word, std::vector<HfPart>& parts) {
  enum class Kind { blank, letter, sign };
  Kind last = Kind::blank;
  for (std::size_t at = 0; at < word.size();) {
    const char32_t point = next_valid_code_point(word, at);
    const Kind kind = is_space(point)       ? Kind::blank
                      : is_word_char(point) ? Kind::letter
                                            : Kind::sign;
    if (!parts.empty() && kind == last)
      parts.back().end = at;
    else
      parts.push_back({at, kind != Kind::blank});
    last = kind;
  }
}

// --- Members of the file. ---

HfBehavior behavior_of(const JsonObject& object, std::string_view otherwise) {
  using enum HfBehavior;
  static constexpr std::pair<std::string_view, HfBehavior> kNames[] = {
      {"Removed", removed},
      {"Isolated", isolated},
      {"MergedWithPrevious", merged_with_previous},
      {"MergedWithNext", merged_with_next},
      {"Contiguous", contiguous}};
  const std::string_view name = object.text_or("behavior", otherwise);
  for (const auto& [known, behavior] : kNames)
    if (name == known) return behavior;
  object.refuse("\"behavior\": ", json_quoted(name),
                ", expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

std::string one_character(const JsonObject& object, std::string_view name) {
  const std::string text(object.text(name));
  std::size_t end = 0;
  if (!text.empty()) next_code_point(text, end);
  if (text.empty() || end != text.size())
    object.refuse(json_quoted(name), ": ", json_quoted(text), ", expected one character");
  return text;
}

// --- Steps. ---

void prepend_space(HfWords& words) {
  HfWords spaced{.text = {}, .ends = {}, .at_start = words.at_start};
  std::size_t begin = 0;
  for (const std::size_t end : words.ends) {
    if (words.text[begin] != ' ') spaced.text += ' ';
    spaced.text.append(words.text, begin, end - begin);
    spaced.ends.push_back(spaced.text.size());
    begin = end;
  }
  words = std::move(spaced);
}

void write_bytes(HfWords& words) {
  std::string text;
  std::size_t at = 0;
  for (std::size_t& end : words.ends) {
    for (; at < end; ++at)
      append_utf8(text, kByteChars[static_cast<unsigned char>(words.text[at])]);
    end = text.size();
  }
  words.text = std::move(text);
}

enum class Prepend { always, first, never };

// Spaces become `mark`, and words begin with one as `prepend` asks.
void write_spaces(HfWords& words, std::string_view mark, Prepend prepend) {
  HfWords marked{.text = {}, .ends = {}, .at_start = words.at_start};
  std::size_t begin = 0;
  for (const std::size_t end : words.ends) {
    const std::string_view word = std::string_view(words.text).substr(begin, end - begin);
    const bool wanted =
        prepend == Prepend::always || (prepend == Prepend::first && begin == 0 && words.at_start);
    if (wanted && word[0] != ' ' && !word.starts_with(mark)) marked.text += mark;
    for (const char c : word)
      if (c == ' ')
        marked.text += mark;
      else
        marked.text += c;
    marked.ends.push_back(marked.text.size());
    begin = end;
  }
  words = std::move(marked);
}

}  // namespace

HfPreTokenizer::HfPreTokenizer(const JsonObject& object) { add(object); }

void HfPreTokenizer::add(const JsonObject& object) {
  const std::string_view type = object.type();
  if (type != "Sequence" && type != "Split") expressions_.clear();
  if (type == "Sequence") {
    for (const JsonObject& part : object.objects("pretokenizers")) add(part);
  } else if (type == "ByteLevel") {
    add_byte_level(object);
  } else if (type == "Split") {
    add_split(object);
  } else if (type == "Metaspace") {
    add_metaspace(object);
  } else if (type == "Digits") {
    const bool single = object.flag("individual_digits");
    add_cut(match_characters(is_numeric), single ? HfBehavior::isolated : HfBehavior::contiguous);
  } else if (type == "Punctuation") {
    add_cut(match_characters(is_punctuation), behavior_of(object, "Isolated"));
  } else if (type == "WhitespaceSplit") {
    add_cut(match_characters(is_space), HfBehavior::removed);
  } else if (type == "BertPreTokenizer") {
    add_cut(match_characters(is_space), HfBehavior::removed);
    add_cut(match_characters(is_punctuation), HfBehavior::isolated);
  } else if (type == "Whitespace") {
    add_cut(match_words, HfBehavior::removed, true);
  } else if (type == "UnicodeScripts") {
    add_cut(match_scripts, HfBehavior::removed, true);
  } else if (type == "CharDelimiterSplit") {
    add_cut(match_text(one_character(object, "delimiter")), HfBehavior::removed);
  } else if (type == "FixedLength") {
    const std::int64_t length = object.number("length", 1 << 30);
    if (length == 0) object.refuse("\"length\": 0, expected 1 at least");
    add_cut(match_runs(length), HfBehavior::isolated);
  } else {
    object.refuse("the pre-tokenizer ", json_quoted(type), " is not known");
  }
}

void HfPreTokenizer::add_cut(HfMatcher matcher, HfBehavior behavior, bool invert) {
  steps_.emplace_back([matcher = std::move(matcher), behavior, invert](HfWords& words) {
    hf_cut(words, matcher, behavior, invert);
  });
  ends_with_bytes_ = false;
}

void HfPreTokenizer::add_splitter(Splitter split, HfBehavior behavior, bool invert) {
  if (behavior == HfBehavior::isolated) splitters_.push_back(split);
  add_cut(match_pieces(split), behavior, invert);
}

void HfPreTokenizer::add_byte_level(const JsonObject& object) {
  if (object.flag("add_prefix_space")) steps_.emplace_back(prepend_space);
  if (object.flag_or("use_regex", true)) add_splitter(gpt2_split, HfBehavior::isolated, false);
  steps_.emplace_back(write_bytes);
  ends_with_bytes_ = true;
}

void HfPreTokenizer::add_split(const JsonObject& object) {
  const JsonObject pattern = object.object("pattern");
  const HfBehavior behavior = behavior_of(object, "");
  const bool invert = object.flag("invert");
  if (!pattern.has("Regex") || behavior != HfBehavior::isolated || invert) expressions_.clear();
  if (pattern.has("Regex")) {
    const std::string_view expression = pattern.text("Regex");
    if (behavior == HfBehavior::isolated && !invert) expressions_.emplace_back(expression);
    if (const Splitter split = known_splitter(expressions_)) {
      steps_.resize(steps_.size() - (kKnownSequence - 1));
      expressions_.clear();
      return add_splitter(split, behavior, invert);
    }
    if (const Splitter split = known_splitter(expression))
      return add_splitter(split, behavior, invert);
    return add_cut([regex = HfRegex(expression, pattern)](
                       std::string_view word, auto& parts) { regex.match(word, parts); },
                   behavior, invert);
  }
  const std::string_view text = pattern.text("String");
  if (text.empty()) pattern.refuse("\"String\": empty, expected what to look for");
  add_cut(match_text(std::string(text)), behavior, invert);
}

void HfPreTokenizer::add_metaspace(const JsonObject& object) {
  const std::string mark = one_character(object, "replacement");
  std::size_t end = 0;
  const char32_t point = next_code_point(mark, end);
  const std::string_view scheme = object.text_or("prepend_scheme", "always");
  Prepend prepend = scheme == "first"   ? Prepend::first
                    : scheme == "never" ? Prepend::never
                                        : Prepend::always;
  if (prepend == Prepend::always && scheme != "always")
    object.refuse("\"prepend_scheme\": ", json_quoted(scheme), ", expected always, first or never");
  if (!object.flag_or("add_prefix_space", true)) {  // of older files
    if (object.has("prepend_scheme") && prepend != Prepend::never)
      object.refuse("\"add_prefix_space\" is false, but \"prepend_scheme\" is ",
                    json_quoted(scheme));
    prepend = Prepend::never;
  }
  asks_for_start_ |= prepend == Prepend::first;
  if (prepend == Prepend::first && point != 0x2581)
    object.refuse("\"prepend_scheme\" is \"first\" with the replacement ", json_quoted(mark),
                  ", expected \"\u2581\"");
  const bool split = object.flag_or("split", true);
  steps_.emplace_back([=](HfWords& words) {
    write_spaces(words, mark, prepend);
    if (split)
      hf_cut(words, match_characters([=](char32_t c) { return c == point; }),
             HfBehavior::merged_with_next);
  });
  ends_with_bytes_ = false;
}

void HfPreTokenizer::leave_bytes() {
  if (ends_with_bytes_) steps_.pop_back();
  ends_with_bytes_ = false;
}

std::optional<Splitter> HfPreTokenizer::splitter() const {
  if (steps_.size() == 1 && splitters_.size() == 1) return splitters_[0];
  return std::nullopt;
}

void HfPreTokenizer::apply(HfWords& words) const {
  for (const Step& step : steps_) step(words);
}

}  // namespace mt
