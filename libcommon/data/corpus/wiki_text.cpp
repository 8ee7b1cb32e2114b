#include "data/corpus/wiki_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "base/utf8.h"

namespace mt {
namespace {

constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
    {"amp", "&"},        {"lt", "<"},          {"gt", ">"},         {"quot", "\""},
    {"apos", "'"},       {"nbsp", " "},        {"ndash", "\u2013"}, {"mdash", "\u2014"},
    {"minus", "\u2212"}, {"hellip", "\u2026"}, {"deg", "\u00b0"},   {"times", "\u00d7"},
    {"thinsp", " "},     {"ensp", " "},        {"emsp", " "},       {"middot", "\u00b7"},
    {"lsquo", "\u2018"}, {"rsquo", "\u2019"},  {"ldquo", "\u201c"}, {"rdquo", "\u201d"},
    {"pound", "\u00a3"}, {"euro", "\u20ac"},   {"prime", "\u2032"}, {"shy", ""},
    {"zwnj", ""},        {"zwj", ""},          {"rarr", "\u2192"},  {"frac12", "\u00bd"},
};

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

bool begins(std::string_view text, std::size_t at, std::string_view with) {
  return text.substr(at, with.size()) == with;
}

// Takes away all from `open` to the `close` that belongs to it, those in it counted; without one
// to the text's end.
std::string without_nested(std::string_view text, std::string_view open, std::string_view close) {
  std::string kept;
  int depth = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (begins(text, at, open)) {
      ++depth;
      at += open.size();
    } else if (depth > 0 && begins(text, at, close)) {
      --depth;
      at += close.size();
    } else {
      if (depth == 0) kept += text[at];
      ++at;
    }
  }
  return kept;
}

std::string without_comments(std::string_view text) {
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = std::min(text.find("<!--", at), text.size());
    kept += text.substr(at, begin - at);
    const std::size_t end = text.find("-->", begin);
    at = end == text.npos ? text.size() : end + 3;
  }
  return kept;
}

// Elements that say nothing of the text, with all that is in them.
constexpr std::string_view kDropped[] = {"ref",           "gallery",         "math",  "timeline",
                                         "score",         "imagemap",        "table", "references",
                                         "graph",         "syntaxhighlight", "chem",  "hiero",
                                         "templatestyles"};

// Takes away tags, and dropped elements whole; a break of a line becomes a space.
std::string without_tags(std::string_view text) {
  std::string kept;
  std::size_t end = 0;                                 // of a tag, the first from where it begins
  std::array<bool, std::size(kDropped)> never_ends{};  // from here on
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = std::min(text.find('<', at), text.size());
    kept += text.substr(at, begin - at);
    if (begin == text.size()) break;
    const std::size_t name = begin + (begins(text, begin + 1, "/") ? 2 : 1);
    std::size_t end_of_name = name;
    while (end_of_name < text.size() && ((text[end_of_name] | 0x20) >= 'a') &&
           ((text[end_of_name] | 0x20) <= 'z'))
      ++end_of_name;
    if (end < end_of_name) end = std::min(text.find('>', end_of_name), text.size());
    if (end_of_name == name || end == text.size()) {  // no tag: a sign of mathematics, say
      kept += '<';
      at = begin + 1;
      continue;
    }
    const std::string_view tag = text.substr(name, end_of_name - name);
    at = end + 1;
    if (same_letters(tag, "br")) kept += ' ';
    const bool opens = name == begin + 1 && text[end - 1] != '/';
    const auto* const dropped =
        std::ranges::find_if(kDropped, [&](auto d) { return same_letters(tag, d); });
    if (!opens || dropped == std::end(kDropped)) continue;
    bool& never = never_ends[static_cast<std::size_t>(dropped - std::begin(kDropped))];
    if (never) continue;
    std::size_t close = text.find("</", at);
    while (close != text.npos && !same_letters(text.substr(close + 2, tag.size()), tag))
      close = text.find("</", close + 2);
    never = close == text.npos;
    if (!never) at = std::min(text.find('>', close), text.size() - 1) + 1;
  }
  return kept;
}

// Whether a link leads to what is no text: a file, a category, another language.
bool is_aside(std::string_view target) {
  const std::size_t colon = target.find(':');
  if (colon == target.npos || colon == 0) return false;
  const std::string_view space = target.substr(0, colon);
  constexpr std::string_view kSpaces[] = {"File", "Image",     "Category", "Media",     "Datei",
                                          "Bild", "Kategorie", "Fichier",  "Catégorie", "Archivo"};
  if (std::ranges::any_of(kSpaces, [&](auto s) { return same_letters(space, s); })) return true;
  return space.size() >= 2 && space.size() <= 3 &&
         std::ranges::all_of(space, [](char c) { return c >= 'a' && c <= 'z'; });
}

// Links, which may have others in their labels, become these; deeper than any author's they stay
// as they are.
class WithoutLinks {
 public:
  explicit WithoutLinks(std::string_view text) : text_(text) {
    std::vector<std::size_t> open;  // of links_
    for (std::size_t at = 0; at + 1 < text.size();) {
      const bool opens = begins(text, at, "[["), closes = !open.empty() && begins(text, at, "]]");
      if (opens) {
        open.push_back(links_.size());
        links_.push_back({.begin = at});
      } else if (closes) {
        links_[open.back()].end = at + 2;
        open.pop_back();
      }
      at += opens || closes ? 2 : 1;
    }
    std::erase_if(links_, [](const Link& link) { return link.end == 0; });
    take(0, text.size(), 0);
  }
  std::string kept;

 private:
  static constexpr int kDeepest = 64;
  struct Link {
    std::size_t begin = 0, end = 0;  // of "[[", behind "]]"; 0: it does not end
  };

  void take(std::size_t at, std::size_t end, int depth) {
    while (at < end) {
      while (next_ < links_.size() && links_[next_].begin < at) ++next_;
      const bool is_last = next_ == links_.size() || links_[next_].begin >= end;
      const std::size_t stop = is_last ? end : links_[next_].begin;
      kept += text_.substr(at, stop - at);
      at = stop;
      if (!is_last) {
        at = links_[next_].end;
        take_link(links_[next_++], depth);
      }
    }
  }

  void take_link(const Link& link, int depth) {
    const std::string_view whole = text_.substr(link.begin, link.end - link.begin);
    if (depth == kDeepest) {
      kept += whole;
      return;
    }
    const std::string_view inside = whole.substr(2, whole.size() - 4);
    const std::size_t bar = inside.find('|');
    if (is_aside(inside.substr(0, bar))) return;
    std::size_t label = link.begin + 2 + (bar == inside.npos ? 0 : inside.rfind('|') + 1);
    if (begins(text_, label, ":")) ++label;
    take(label, link.end - 2, depth + 1);
  }

  std::string_view text_;
  std::vector<Link> links_;  // those that end, in their order
  std::size_t next_ = 0;     // of links_
};

// [http://example.org label] becomes its label.
std::string without_addresses(std::string_view text) {
  std::string kept;
  std::size_t end = 0;  // of the line, or the first ] in it
  for (std::size_t at = 0; at < text.size();) {
    const bool opens =
        text[at] == '[' &&
        std::ranges::any_of(std::array<std::string_view, 4>{"http://", "https://", "//", "ftp://"},
                            [&](auto s) { return begins(text, at + 1, s); });
    if (opens && end <= at) end = std::min(text.find_first_of("]\n", at), text.size());
    const bool is_one = opens && end < text.size() && text[end] == ']';
    if (!is_one) {
      kept += text[at++];
      continue;
    }
    const std::string_view inside = text.substr(at + 1, end - at - 1);
    const std::size_t space = inside.find(' ');
    if (space != inside.npos) kept += inside.substr(space + 1);
    at = end + 1;
  }
  return kept;
}

// Quotes that make letters bold or slanted, and words that say how a page is shown.
std::string without_signs(std::string_view text) {
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    if (begins(text, at, "''")) {
      while (at < text.size() && text[at] == '\'') ++at;
      continue;
    }
    if (begins(text, at, "__")) {
      std::size_t end = at + 2;
      while (end < text.size() && text[end] >= 'A' && text[end] <= 'Z') ++end;
      if (end > at + 2 && begins(text, end, "__")) {
        at = end + 2;
        continue;
      }
    }
    kept += text[at++];
  }
  return kept;
}

// A line without the signs of headings and lists, with single spaces, and without parentheses in
// which nothing was left.
std::string clean_line(std::string_view line) {
  while (!line.empty() && std::string_view("*#:; \t").find(line.front()) != std::string_view::npos)
    line.remove_prefix(1);
  if (line.starts_with("=")) {
    while (line.starts_with("=")) line.remove_prefix(1);
    while (line.ends_with("=") || line.ends_with(" ")) line.remove_suffix(1);
  }
  if (line.starts_with("----"))
    line = line.substr(std::min(line.find_first_not_of('-'), line.size()));
  std::string kept;
  for (const char c : line) {
    const bool space = c == ' ' || c == '\t' || c == '\r';
    if (space && (kept.empty() || kept.back() == ' ')) continue;
    if ((c == ',' || c == '.' || c == ')' || c == ';') && kept.ends_with(' ')) kept.pop_back();
    if (c == ')') {
      while (!kept.empty() && (kept.back() == ',' || kept.back() == ';' || kept.back() == ' '))
        kept.pop_back();
      if (kept.ends_with('(')) {
        kept.pop_back();
        if (kept.ends_with(' ')) kept.pop_back();
        continue;
      }
    }
    if (kept.ends_with('(') && (space || c == ',' || c == ';')) continue;
    kept += space ? ' ' : c;
  }
  while (kept.ends_with(' ')) kept.pop_back();
  return kept;
}

}  // namespace

std::string without_entities(std::string_view text) {
  std::string kept;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = text[at] == '&' ? text.substr(at, 11).find(';') : text.npos;
    if (length == text.npos) {
      kept += text[at++];
      continue;
    }
    const std::size_t end = at + length;
    const std::string_view name = text.substr(at + 1, end - at - 1);
    const auto known =
        std::ranges::find(kEntities, name, &std::pair<std::string_view, std::string_view>::first);
    std::uint32_t point = 0;
    if (known != std::end(kEntities)) {
      kept += known->second;
    } else if (name.starts_with('#')) {
      const bool hex = name.size() > 1 && (name[1] | 0x20) == 'x';
      const std::string_view digits = name.substr(hex ? 2 : 1);
      const auto [stop, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), point, hex ? 16 : 10);
      const bool is_point = error == std::errc() && stop == digits.data() + digits.size() &&
                            point > 0 && point <= 0x10FFFF && (point < 0xD800 || point > 0xDFFF);
      if (is_point)
        append_utf8(kept, point);
      else
        kept += text.substr(at, end + 1 - at);
    } else {
      kept += text.substr(at, end + 1 - at);
    }
    at = end + 1;
  }
  return kept;
}

std::string wiki_text(std::string_view markup) {
  std::string text = without_comments(markup);
  text = without_nested(text, "{{", "}}");
  text = without_nested(text, "{|", "|}");
  text = without_tags(text);
  text = WithoutLinks(text).kept;
  text = without_addresses(text);
  text = without_entities(without_signs(text));
  std::string kept;
  bool parted = false;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = clean_line(std::string_view(text).substr(at, end - at));
    at = end + 1;
    if (line.empty()) {
      parted = true;
      continue;
    }
    if (!kept.empty()) kept += parted ? "\n\n" : "\n";
    kept += line;
    parted = false;
  }
  return kept;
}

}  // namespace mt
