#include "text/hf/hf_normalizer.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include "base/json_object.h"
#include "base/utf8.h"
#include "text/bpe/base64.h"
#include "text/bpe/byte_map.h"
#include "text/bpe/char_masks.h"
#include "text/hf/hf_normal_forms.h"
#include "text/hf/hf_precompiled.h"
#include "text/hf/hf_regex.h"
#include "text/hf/hf_tables.h"
#include "text/unicode/unicode.h"
#include "text/unicode/utf8_length.h"

namespace mt {
namespace {

bool is_space(char32_t point) { return category(point) == Category::space; }

bool is_printable(char byte) { return byte >= ' ' && byte <= '~'; }

// Where the run of printable ASCII from `at` on ends: characters that none of these steps changes.
std::size_t printable_end(std::string_view text, std::size_t at) {
  constexpr std::size_t kFew = 8;  // are looked at one by one
  const std::size_t few = std::min(text.size(), at + kFew);
  while (at < few && is_printable(text[at])) ++at;
  if (at < few) return at;
  for (int run = CharMasks::kBytes; run == CharMasks::kBytes && at < text.size(); at += run)
    run = std::countr_one(CharMasks(text.substr(at)).printable);
  return at;
}

// Each character for which changes() holds, which is no printable ASCII, becomes what put() appends
// for it.
template <class Changes, class Put>
void rewrite(std::string& text, const Changes& changes, const Put& put) {
  std::string result;
  std::size_t copied = 0;  // up to here `result` stands for the text
  for (std::size_t at = 0; at < text.size();) {
    if (is_printable(text[at])) {
      at = printable_end(text, at + 1);
      continue;
    }
    const std::size_t begin = at;
    const char32_t point = next_valid_code_point(text, at);
    if (!changes(point)) continue;
    if (copied == 0) result.reserve(text.size());
    result.append(text, copied, begin - copied);
    put(point, result);
    copied = at;
  }
  if (copied > 0) text = std::move(result.append(text, copied));
}

constexpr auto flags_of(HfFlag flag) { return static_cast<std::uint16_t>(flag); }

// Takes away the characters that have one of the flags in `dropped`, of which none is printable
// ASCII, and makes the others lower case, if that is asked for.
void fold(std::string& text, std::uint16_t dropped, bool lowers) {
  if (lowers)
    for (char& byte : text)
      byte = byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte | 0x20) : byte;
  const auto changed = static_cast<std::uint16_t>(dropped | (lowers ? flags_of(HfFlag::lower) : 0));
  rewrite(
      text, [=](char32_t point) { return (hf_entry(point).flags & changed) != 0; },
      [=](char32_t point, std::string& result) {
        if ((hf_entry(point).flags & dropped) == 0) append_hf_lower(result, point);
      });
}

void strip(std::string& text, bool left, bool right) {
  std::size_t begin = text.size(), end = 0;  // of what is no white space
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t before = at;
    if (is_space(next_valid_code_point(text, at))) continue;
    begin = std::min(begin, before);
    end = at;
  }
  if (right) text.resize(left ? std::max(begin, end) : end);
  if (left) text.erase(0, begin);
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  std::string result;
  std::size_t last = 0;
  for (std::size_t at; (at = text.find(from, last)) != text.npos; last = at + from.size())
    result.append(text, last, at - last).append(to);
  if (last > 0) text = result.append(text, last);
}

// --- BertNormalizer. ---

// The ideographs as the library has them: one block begins 256 characters late.
bool is_ideograph(char32_t p) {
  return (p >= 0x4E00 && p <= 0x9FFF) || (p >= 0x3400 && p <= 0x4DBF) ||
         (p >= 0x20000 && p <= 0x2A6DF) || (p >= 0x2A700 && p <= 0x2B73F) ||
         (p >= 0x2B740 && p <= 0x2B81F) || (p >= 0x2B920 && p <= 0x2CEAF) ||
         (p >= 0xF900 && p <= 0xFAFF) || (p >= 0x2F800 && p <= 0x2FA1F);
}

// Drops control characters and makes spaces of white space; puts spaces around ideographs.
void clean(std::string& text, bool cleans, bool ideographs) {
  rewrite(
      text,
      [=](char32_t point) {
        return (cleans && (hf_is(point, HfFlag::control) || is_space(point))) ||
               (ideographs && is_ideograph(point));
      },
      [=](char32_t point, std::string& result) {
        if (cleans && hf_is(point, HfFlag::control)) return;
        result += ' ';
        if (is_space(point)) return;
        append_utf8(result, point);
        result += ' ';
      });
}

// --- Nmt. ---

bool is_nmt_dropped(char32_t p) {
  return (p >= 0x01 && p <= 0x08) || p == 0x0B || (p >= 0x0E && p <= 0x1F) || p == 0x7F ||
         p == 0x8F || p == 0x9F;
}

bool is_nmt_space(char32_t p) {
  return p == '\t' || p == '\n' || p == '\f' || p == '\r' || p == 0x1680 ||
         (p >= 0x200B && p <= 0x200F) || p == 0x2028 || p == 0x2029 || p == 0x2581 || p == 0xFEFF ||
         p == 0xFFFD;
}

// Drops control characters and makes spaces of white space that is none to others.
void clean_nmt(std::string& text) {
  rewrite(
      text, [](char32_t point) { return is_nmt_dropped(point) || is_nmt_space(point); },
      [](char32_t point, std::string& result) {
        if (is_nmt_space(point)) result += ' ';
      });
}

// --- ByteLevel. ---

void write_bytes(std::string& text) {
  std::string result;
  for (const char byte : text) append_utf8(result, kByteChars[static_cast<unsigned char>(byte)]);
  text = std::move(result);
}

std::function<void(std::string&)> bert_step(const JsonObject& object) {
  HfBertNormalizer normalizer;
  normalizer.clean_text = object.flag("clean_text");
  normalizer.handle_chinese_chars = object.flag("handle_chinese_chars");
  normalizer.lowercase = object.flag("lowercase");
  normalizer.strip_accents = object.flag_or("strip_accents", normalizer.lowercase);
  return [normalizer](std::string& text) { normalizer.apply(text); };
}

}  // namespace

void HfBertNormalizer::apply(std::string& text) const {
  if (clean_text || handle_chinese_chars) clean(text, clean_text, handle_chinese_chars);
  if (strip_accents) text = hf_normal_form(text, NormalForm::nfd);
  fold(text, strip_accents ? flags_of(HfFlag::nonspacing_mark) : 0, lowercase);
}

HfNormalizer::HfNormalizer(const JsonObject& object) { add(object); }

void HfNormalizer::add(const JsonObject& object) {
  const std::string_view type = object.type();
  const auto form = [&](NormalForm wanted) {
    steps_.emplace_back([wanted](std::string& text) { text = hf_normal_form(text, wanted); });
  };
  if (type == "Sequence") {
    for (const JsonObject& part : object.objects("normalizers")) add(part);
  } else if (type == "NFC") {
    form(NormalForm::nfc);
  } else if (type == "NFD") {
    form(NormalForm::nfd);
  } else if (type == "NFKC") {
    form(NormalForm::nfkc);
  } else if (type == "NFKD") {
    form(NormalForm::nfkd);
  } else if (type == "Lowercase") {
    steps_.emplace_back([](std::string& text) { fold(text, 0, true); });
  } else if (type == "Strip") {
    const bool left = object.flag("strip_left"), right = object.flag("strip_right");
    keeps_start_ &= !left;
    steps_.emplace_back([=](std::string& text) { strip(text, left, right); });
  } else if (type == "Nmt") {
    keeps_start_ = false;
    steps_.emplace_back(clean_nmt);
  } else if (type == "ByteLevel") {
    steps_.emplace_back(write_bytes);
  } else if (type == "StripAccents") {
    keeps_start_ = false;
    steps_.emplace_back([](std::string& text) { fold(text, flags_of(HfFlag::mark), false); });
  } else if (type == "Prepend") {
    steps_.emplace_back([prefix = std::string(object.text("prepend"))](std::string& text) {
      if (!text.empty()) text.insert(0, prefix);
    });
  } else if (type == "Replace") {
    const JsonObject pattern = object.object("pattern");
    const std::string to(object.text("content"));
    const bool space = to.starts_with(' ') || to.starts_with("\xE2\x96\x81");  // U+2581
    if (pattern.has("Regex")) {
      keeps_start_ &= space;
      steps_.emplace_back([=, regex = HfRegex(pattern.text("Regex"), pattern)](std::string& text) {
        text = regex.replace(text, to);
      });
      return;
    }
    const std::string from(pattern.text("String"));
    if (from.empty()) pattern.refuse("\"String\": empty, expected what to look for");
    keeps_start_ &= space || (!to.empty() && from.size() == utf8_length(from[0]));
    steps_.emplace_back([=](std::string& text) { replace(text, from, to); });
  } else if (type == "BertNormalizer") {
    keeps_start_ = false;
    steps_.push_back(bert_step(object));
  } else if (type == "Precompiled") {
    const auto blob = from_base64(object.text("precompiled_charsmap"));
    if (!blob) object.refuse("\"precompiled_charsmap\": not the base64 of any bytes");
    steps_.emplace_back([map = HfPrecompiled(CharsMap(*blob, object.where() + ": "))](
                            std::string& text) { text = map.apply(text); });
  } else {
    object.refuse("the normalizer ", json_quoted(type), " is not known");
  }
}

void HfNormalizer::apply(std::string& text) const {
  for (const Step& step : steps_) step(text);
}

}  // namespace mt
