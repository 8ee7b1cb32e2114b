#include "data/corpus/line_encoder.h"

#include <algorithm>

#include "base/error.h"
#include "base/input/text_lines.h"
#include "text/hf/hf_tokenizer.h"
#include "text/put_in_front.h"

namespace mt {

// Tokens that are stored together, about: many short documents', which stay in the smallest cache.
static constexpr std::size_t kStoredTogether = 2048;

// Samples of BERT and T5, which sentences are for, have [CLS] and [SEP] of their own; transformers'
// tokenizers alone would put them around each sentence.
LineEncoder::LineEncoder(const Options& options, const Tokenizer& tokenizer,
                         const SentenceSplitter* splitter)
    : options_(options), tokenizer_(tokenizer), splitter_(splitter) {
  if (splitter == nullptr || tokenizer.type() != HfTokenizer::kType) return;
  std::vector<std::int32_t> around;
  tokenizer.encode("", around);
  in_front_ = put_in_front(tokenizer).size();
  behind_ = around.size() - in_front_;
}

std::size_t LineEncoder::add_text(std::string_view text, std::vector<std::int32_t>& ids) const {
  const std::size_t before = ids.size();
  tokenizer_.encode_utf8(text, ids);
  const auto first = ids.begin() + static_cast<std::ptrdiff_t>(before);
  ids.erase(first, first + static_cast<std::ptrdiff_t>(in_front_));
  ids.resize(ids.size() - behind_);
  return ids.size() - before;
}

void LineEncoder::store_ids(EncodedKey& out) const {
  if (const auto token = out.tokens.append(options_.type, out.ids))
    fail(Exit::internal, "token ", *token, " of a vocabulary of ", tokenizer_.vocab_size(),
         " does not fit ", name_of(options_.type));
  out.ids.clear();
}

std::size_t LineEncoder::add_document(std::span<const std::string_view> texts,
                                      EncodedKey& out) const {
  std::vector<std::string_view> sentences;
  if (splitter_ != nullptr) {
    for (const std::string_view text : texts) splitter_->split(text, sentences);
    texts = sentences;
  }
  std::vector<std::int32_t>& ids = out.ids;
  const std::size_t first = out.lengths.size(), begin = ids.size();
  for (const std::string_view text : texts) {
    if (const std::size_t added = add_text(text, ids))
      out.lengths.push_back(static_cast<std::int32_t>(added));
  }
  out.documents.push_back(out.lengths.size() - first);
  if (ids.size() == begin) return 0;
  if (options_.prepend_bos && ids[begin] != tokenizer_.bos()) {
    ids.insert(ids.begin() + static_cast<std::ptrdiff_t>(begin), tokenizer_.bos());
    ++out.lengths[first];
  }
  if (options_.append_eod) {
    ids.push_back(tokenizer_.eod());
    ++out.lengths.back();
  }
  return ids.size() - begin;
}

void LineEncoder::add_padded(std::string_view text, EncodedKey& out) const {
  const std::size_t begin = out.ids.size();
  tokenizer_.encode_utf8(text, out.ids);
  if (options_.append_eod && out.ids.size() > begin)
    out.ids.resize(begin + static_cast<std::size_t>(options_.pad_to), tokenizer_.eod());
  out.lengths.push_back(static_cast<std::int32_t>(out.ids.size() - begin));
  out.documents.push_back(1);
}

template <class Add>
std::string LineEncoder::add_line(EncodedBlock& out, const Add& add) const {
  for (EncodedKey& key : out.keys) {
    key.ids_before = key.ids.size();
    key.lengths_before = key.lengths.size();
    key.documents_before = key.documents.size();
  }
  try {
    add();
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data) throw;
    for (EncodedKey& key : out.keys) {
      key.ids.resize(key.ids_before);
      key.lengths.resize(key.lengths_before);
      key.documents.resize(key.documents_before);
    }
    return error.what();
  }
  for (EncodedKey& key : out.keys)
    if (key.ids.size() >= kStoredTogether) store_ids(key);
  return "";
}

void LineEncoder::encode(const LineBlock& block, EncodedBlock& out) const {
  out.keys.resize(options_.text_lines ? 1 : options_.json_keys.size());
  for (EncodedKey& key : out.keys) {
    key.tokens.clear();
    key.ids.clear();
    key.lengths.clear();
    key.documents.clear();
  }
  out.bad.clear();
  out.lines = 0;
  if (!block.too_long.empty()) {
    out.lines = 1;
    out.bad.push_back({block.first_line, block.too_long, block.text()});
  } else {
    options_.text_lines ? encode_text(block, out) : encode_json(block, out);
  }
  for (EncodedKey& key : out.keys) store_ids(key);
}

void LineEncoder::encode_json(const LineBlock& block, EncodedBlock& out) const {
  if (!out.parser) out.parser.emplace(options_.json_keys);
  std::string_view rest = block.text(), line;
  for (std::int64_t number = block.first_line; !rest.empty(); ++number) {
    std::string wrong = out.parser->parse_first(rest, line);
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    ++out.lines;
    const std::vector<std::vector<std::string_view>>& texts = out.parser->texts();
    if (wrong.empty() && options_.pad_to > 0 && texts[0].size() != 1)
      wrong = "the value of \"" + options_.json_keys[0] + "\" is a list, expected one text";
    if (wrong.empty())
      wrong = add_line(out, [&] {
        for (std::size_t k = 0; k < out.keys.size(); ++k)
          if (options_.pad_to > 0)
            add_padded(texts[k].front(), out.keys[k]);
          else
            add_document(texts[k], out.keys[k]);
      });
    if (!wrong.empty()) out.bad.push_back({number, std::move(wrong), line});
  }
}

void LineEncoder::encode_text(const LineBlock& block, EncodedBlock& out) const {
  TextLines lines(block);
  EncodedKey& key = out.keys.front();
  for (TextLines::Line line; lines.next(line); ++out.lines) {
    std::string wrong = line.wrong == nullptr ? "" : line.wrong;
    std::size_t added = 0;
    if (wrong.empty()) wrong = add_line(out, [&] { added = add_document({&line.text, 1}, key); });
    if (wrong.empty() && added == 0) {
      wrong = "gives no token";
      key.documents.pop_back();
    }
    if (!wrong.empty()) out.bad.push_back({line.number, std::move(wrong), line.line});
  }
}

}  // namespace mt
