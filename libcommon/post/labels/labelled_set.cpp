#include "post/labels/labelled_set.h"

#include <iterator>

#include "base/error.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "text/unicode/unicode.h"

namespace mt {

LabelledSet joined(std::vector<LabelledSet> sets, const std::string& name) {
  LabelledSet all = std::move(sets.front());
  all.name = name;
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  for (std::size_t i = 1; i < sets.size(); ++i) {
    LabelledSet& next = sets[i];
    const auto first = static_cast<std::int64_t>(all.texts.size());
    for (LabelledSet::Pair& pair : next.pairs) {
      pair.a += first;
      if (pair.b >= 0) pair.b += first;
    }
    append(all.texts, next.texts);
    append(all.pairs, next.pairs);
    append(all.labels, next.labels);
    append(all.numbers, next.numbers);
    append(all.uids, next.uids);
    all.has_labels = all.has_labels && next.has_labels;
  }
  return all;
}

static bool is_held_out(const LabelledSet& set, const LabelledSet::Pair& pair, double share) {
  Hasher hasher;
  hasher.update(set.texts[static_cast<std::size_t>(pair.a)]);
  if (pair.b >= 0) hasher.update(concat("\n", set.texts[static_cast<std::size_t>(pair.b)]));
  return static_cast<double>(hasher.digest().low) < share * 0x1p64;
}

LabelledSet held_out(LabelledSet& set, double share) {
  LabelledSet parts[2];
  for (LabelledSet& part : parts) {
    part.name = set.name;
    part.kind = set.kind;
    part.has_labels = set.has_labels;
  }
  const std::size_t numbers = set.pairs.empty() ? 0 : set.numbers.size() / set.pairs.size();
  for (std::size_t i = 0; i < set.pairs.size(); ++i) {
    const LabelledSet::Pair& pair = set.pairs[i];
    LabelledSet& to = parts[is_held_out(set, pair, share) ? 1 : 0];
    const auto moved = [&](std::int64_t text) {
      return text < 0 ? text : to.add_text(set.texts[static_cast<std::size_t>(text)]);
    };
    const std::int64_t a = moved(pair.a);
    to.pairs.push_back({a, moved(pair.b)});
    if (!set.labels.empty()) to.labels.push_back(set.labels[i]);
    const auto first = set.numbers.begin() + static_cast<std::ptrdiff_t>(i * numbers);
    to.numbers.insert(to.numbers.end(), first, first + static_cast<std::ptrdiff_t>(numbers));
    to.uids.push_back(set.uids[i]);
  }
  set = std::move(parts[0]);
  return std::move(parts[1]);
}

static void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
}

std::string clean_text(std::string_view text) {
  std::string clean;
  bool in_space = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const bool space = is_python_space(next_code_point(text, at));
    if (!space)
      clean += text.substr(begin, at - begin);
    else if (!in_space)
      clean += ' ';
    in_space = space;
  }
  for (int i = 0; i < 3; ++i) replace_all(clean, " . ", ". ");
  return clean;
}

std::string_view strip(std::string_view text) {
  std::size_t begin = text.size(), end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    if (is_python_space(next_code_point(text, at))) continue;
    begin = std::min(begin, here);
    end = at;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

}  // namespace mt
