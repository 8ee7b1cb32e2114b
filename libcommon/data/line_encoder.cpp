#include "data/line_encoder.h"

#include <algorithm>

#include "base/utf8.h"
#include "data/json_lines.h"

namespace mt {

void LineEncoder::add_document(const std::vector<std::string_view>& texts, EncodedKey& out) const {
  std::vector<std::string_view> sentences;
  if (splitter_ != nullptr)
    for (const std::string_view text : texts) splitter_->split(text, sentences);
  const std::size_t first = out.lengths.size(), first_token = out.tokens.size();
  for (const std::string_view text : splitter_ != nullptr ? sentences : texts) {
    const std::size_t before = out.tokens.size();
    tokenizer_.encode(text, out.tokens);
    if (out.tokens.size() > before)
      out.lengths.push_back(static_cast<std::int32_t>(out.tokens.size() - before));
  }
  out.documents.push_back(out.lengths.size() - first);
  if (options_.prepend_bos && out.lengths.size() > first &&
      out.tokens[first_token] != tokenizer_.bos()) {
    out.tokens.insert(out.tokens.begin() + static_cast<std::ptrdiff_t>(first_token),
                      tokenizer_.bos());
    ++out.lengths[first];
  }
  if (options_.append_eod && out.lengths.size() > first) {
    out.tokens.push_back(tokenizer_.eod());
    ++out.lengths.back();
  }
}

void LineEncoder::add_padded(std::string_view text, EncodedKey& out) const {
  const std::size_t before = out.tokens.size();
  tokenizer_.encode(text, out.tokens);
  if (options_.append_eod && out.tokens.size() > before)
    out.tokens.resize(before + static_cast<std::size_t>(options_.pad_to), tokenizer_.eod());
  out.lengths.push_back(static_cast<std::int32_t>(out.tokens.size() - before));
  out.documents.push_back(1);
}

EncodedBlock LineEncoder::encode(const LineBlock& block) const {
  EncodedBlock encoded;
  encoded.keys.resize(options_.text_lines ? 1 : options_.json_keys.size());
  options_.text_lines ? encode_text(block, encoded) : encode_json(block, encoded);
  return encoded;
}

void LineEncoder::encode_json(const LineBlock& block, EncodedBlock& out) const {
  JsonLineParser parser(options_.json_keys);
  for_each_line(block, [&](std::string_view line, std::int64_t number) {
    ++out.lines;
    std::string wrong = parser.parse(line);
    if (wrong.empty() && options_.pad_to > 0 && parser.texts()[0].size() != 1)
      wrong = "the value of \"" + options_.json_keys[0] + "\" is a list, expected one text";
    if (!wrong.empty()) {
      out.bad.push_back({number, std::move(wrong), line});
      return;
    }
    for (std::size_t k = 0; k < out.keys.size(); ++k)
      if (options_.pad_to > 0)
        add_padded(parser.texts()[k].front(), out.keys[k]);
      else
        add_document(parser.texts()[k], out.keys[k]);
  });
}

// A line's end is "\n" to the tokenizer, also where it is "\r\n".
void LineEncoder::encode_text(const LineBlock& block, EncodedBlock& out) const {
  const char* const end = block.text().data() + block.text().size();
  for_each_line(block, [&](std::string_view line, std::int64_t number) {
    ++out.lines;
    const bool ended = line.data() + line.size() < end;
    std::string text(line.substr(0, line.size() - (ended && line.ends_with('\r') ? 1 : 0)));
    if (ended) text += '\n';
    EncodedKey& key = out.keys.front();
    const std::size_t before = key.tokens.size();
    std::string wrong;
    if (!is_valid_utf8(text))
      wrong = "invalid UTF-8";
    else if (text.find('\r') != text.npos)
      wrong = "a carriage return inside the line";
    else
      add_document({text}, key);
    if (wrong.empty() && key.tokens.size() == before) {
      wrong = "gives no token";
      key.documents.pop_back();
    }
    if (!wrong.empty()) out.bad.push_back({number, std::move(wrong), line});
  });
}

}  // namespace mt
