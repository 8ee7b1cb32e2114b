#include "text/hf_normalizer.h"

#include <string_view>

#include "base/utf8.h"
#include "text/hf_normal_forms.h"
#include "text/hf_object.h"
#include "text/hf_tables.h"
#include "text/unicode.h"

namespace mt {
namespace {

bool is_space(char32_t point) { return category(point) == Category::space; }

// Keeps the characters that `keep` says; false where the first ones go.
template <class Keep>
bool filter(std::string& text, Keep keep) {
  std::string kept;
  bool at_start = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t before = at;
    const char32_t point = next_code_point(text, at);
    if (keep(point))
      kept.append(text, before, at - before);
    else if (kept.empty())
      at_start = false;
  }
  text = std::move(kept);
  return at_start;
}

bool strip(std::string& text, bool left, bool right) {
  std::size_t begin = text.size(), end = 0;  // of what is no white space
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t before = at;
    if (is_space(next_code_point(text, at))) continue;
    begin = std::min(begin, before);
    end = at;
  }
  if (right) text.resize(left ? std::max(begin, end) : end);
  if (!left) return true;
  text.erase(0, begin);
  return begin == 0;
}

bool replace(std::string& text, const std::string& from, const std::string& to) {
  std::string result;
  std::size_t last = 0;
  bool at_start = true;
  for (std::size_t at; (at = text.find(from, last)) != text.npos; last = at + from.size()) {
    if (result.empty() && at == last && to.empty()) at_start = false;
    result.append(text, last, at - last).append(to);
  }
  if (last == 0) return true;
  text = result.append(text, last);
  return at_start;
}

// --- BertNormalizer. ---

// As the library has them: one block begins 256 characters late.
bool is_ideograph(char32_t p) {
  return (p >= 0x4E00 && p <= 0x9FFF) || (p >= 0x3400 && p <= 0x4DBF) ||
         (p >= 0x20000 && p <= 0x2A6DF) || (p >= 0x2A700 && p <= 0x2B73F) ||
         (p >= 0x2B740 && p <= 0x2B81F) || (p >= 0x2B920 && p <= 0x2CEAF) ||
         (p >= 0xF900 && p <= 0xFAFF) || (p >= 0x2F800 && p <= 0x2FA1F);
}

bool clean(std::string& text) {
  const bool at_start = filter(text, [](char32_t p) { return !hf_is(p, HfFlag::control); });
  std::string spaced;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t point = next_code_point(text, at);
    append_utf8(spaced, is_space(point) ? U' ' : point);
  }
  text = std::move(spaced);
  return at_start;
}

void separate_ideographs(std::string& text) {
  std::string spaced;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t before = at;
    const bool alone = is_ideograph(next_code_point(text, at));
    if (alone) spaced += ' ';
    spaced.append(text, before, at - before);
    if (alone) spaced += ' ';
  }
  text = std::move(spaced);
}

std::function<bool(std::string&)> bert_step(const HfObject& object) {
  const bool cleans = object.flag("clean_text"), ideographs = object.flag("handle_chinese_chars");
  const bool lower = object.flag("lowercase");
  const bool accents = object.flag_or("strip_accents", lower);
  return [=](std::string& text) {
    bool at_start = !cleans || clean(text);
    if (ideographs) separate_ideographs(text);
    if (accents) {
      text = hf_normal_form(text, NormalForm::nfd);
      at_start &= filter(text, [](char32_t p) { return !hf_is(p, HfFlag::nonspacing_mark); });
    }
    if (lower) text = hf_lower(text);
    return at_start;
  };
}

}  // namespace

HfNormalizer::HfNormalizer(const HfObject& object) { add(object); }

void HfNormalizer::add(const HfObject& object) {
  const std::string_view type = object.type();
  const auto form = [&](NormalForm wanted) {
    steps_.emplace_back([wanted](std::string& text) {
      text = hf_normal_form(text, wanted);
      return true;
    });
  };
  if (type == "Sequence") {
    for (const HfObject& part : object.objects("normalizers")) add(part);
  } else if (type == "NFC") {
    form(NormalForm::nfc);
  } else if (type == "NFD") {
    form(NormalForm::nfd);
  } else if (type == "NFKC") {
    form(NormalForm::nfkc);
  } else if (type == "NFKD") {
    form(NormalForm::nfkd);
  } else if (type == "Lowercase") {
    steps_.emplace_back([](std::string& text) {
      text = hf_lower(text);
      return true;
    });
  } else if (type == "Strip") {
    const bool left = object.flag("strip_left"), right = object.flag("strip_right");
    steps_.emplace_back([=](std::string& text) { return strip(text, left, right); });
  } else if (type == "StripAccents") {
    steps_.emplace_back([](std::string& text) {
      return filter(text, [](char32_t p) { return !hf_is(p, HfFlag::mark); });
    });
  } else if (type == "Prepend") {
    steps_.emplace_back([prefix = std::string(object.text("prepend"))](std::string& text) {
      if (!text.empty()) text.insert(0, prefix);
      return true;
    });
  } else if (type == "Replace") {
    const HfObject pattern = object.object("pattern");
    if (pattern.has("Regex"))
      pattern.refuse("the regular expression ", quoted(pattern.text("Regex")), " is not known");
    const std::string from(pattern.text("String")), to(object.text("content"));
    if (from.empty()) pattern.refuse("\"String\": empty, expected what to look for");
    steps_.emplace_back([=](std::string& text) { return replace(text, from, to); });
  } else if (type == "BertNormalizer") {
    steps_.push_back(bert_step(object));
  } else {
    object.refuse("the normalizer ", quoted(type), " is not known");
  }
}

bool HfNormalizer::apply(std::string& text) const {
  bool at_start = true;
  for (const Step& step : steps_) at_start &= step(text);
  return at_start;
}

}  // namespace mt
