#include "eval/eval_input.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/input/line_reader.h"
#include "base/json_place.h"
#include "base/utf8.h"
#include "data/corpus/json_lines.h"
#include "data/files/indexed_dataset.h"
#include "data/files/manifest.h"
#include "data/files/tokenizer_source.h"
#include "text/put_in_front.h"
#include "text/unicode/unicode.h"

namespace mt {
namespace {

using Visit = std::function<void(const EvalText&)>;

// Who tokenizes, and how many of the tokens the model knows.
struct Words {
  const Tokenizer& tokenizer;
  std::int64_t count;

  void check(std::span<const std::int32_t> ids, const auto&... place) const {
    for (const std::int32_t id : ids)
      if (id < 0 || id >= count)
        fail(Exit::bad_data, place..., ": token ", id, ", expected 0 to ", count - 1);
  }
};

// The tokens of a document without the one that ends it, if preprocessing has appended that.
void read_document(const IndexedDataset& data, std::int64_t document, std::int32_t eod,
                   std::vector<std::int32_t>& ids) {
  ids.clear();
  for (auto i = data.document_begin(document); i < data.document_begin(document + 1); ++i) {
    const std::size_t at = ids.size();
    ids.resize(at + static_cast<std::size_t>(data.length(i)));
    data.read(i, 0, std::span(ids).subspan(at));
  }
  if (!ids.empty() && ids.back() == eod) ids.pop_back();
}

void visit_token_file(const std::string& prefix, const Words& words, const Visit& visit) {
  const Tokenizer& tokenizer = words.tokenizer;
  const IndexedDataset data(prefix);
  refuse_other_tokenizer(prefix, tokenizer);
  const std::vector<std::int32_t> in_front = put_in_front(tokenizer);
  std::vector<std::int32_t> ids;
  std::uint64_t read = 0;
  for (std::int64_t document = 0; document < data.documents(); ++document) {
    read_document(data, document, tokenizer.eod(), ids);
    words.check(ids, prefix, ": document ", document);
    read += static_cast<std::uint64_t>(
                data.tokens({data.document_begin(document), data.document_begin(document + 1)})) *
            size_of(data.type());
    // What the tokenizer puts in front is no text.
    const auto first = std::ranges::mismatch(ids, in_front).in1;
    const std::string text = tokenizer.decode({first, ids.end()});
    visit({ids, count_words(text), static_cast<std::int64_t>(text.size()), read});
  }
}

// Texts that stand in a list are tokenized one by one, as preprocessing does.
// `before`: how much of the input, as stored, had been read before the block.
void visit_json_lines(const LineBlock& block, std::uint64_t before, const Words& known,
                      JsonLineParser& parser, const Visit& visit) {
  const double stored = static_cast<double>(block.stored_end) - static_cast<double>(before);
  std::vector<std::int32_t> ids;
  for_each_line(block, [&](std::string_view line, std::int64_t number) {
    if (const std::string wrong = parser.parse(line); !wrong.empty())
      fail(Exit::bad_data, block.file, ":", number, ": ", wrong);
    std::size_t bytes = 0;
    std::int64_t words = 0;
    ids.clear();
    for (const std::string_view text : parser.texts().front()) {
      known.tokenizer.encode(text, ids);
      words += count_words(text);
      bytes += text.size();
    }
    known.check(ids, block.file, ":", number);
    const auto end = static_cast<double>(line.data() + line.size() - block.text().data());
    const double part = end / static_cast<double>(block.text().size());
    visit({ids, words, static_cast<std::int64_t>(bytes),
           before + static_cast<std::uint64_t>(part * stored)});
  });
}

void visit_plain(const std::string& text, const Words& known, const std::string& input,
                 const Visit& visit) {
  std::vector<std::int32_t> ids;
  known.tokenizer.encode(text, ids);
  known.check(ids, input);
  visit({ids, count_words(text), static_cast<std::int64_t>(text.size()), input_bytes(input)});
}

bool looks_like_json(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // the parser will name it
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

// An array of objects would be scored as plain text, its signs among the words.
void refuse_array(const LineBlock& block) {
  const std::string_view text = block.text(), line = text.substr(0, text.find('\n'));
  if (const std::string form = other_json_form(line); !form.empty())
    fail(Exit::bad_data, block.file, ":", block.first_line, ": ", form);
}

}  // namespace

void refuse_other_tokenizer(const std::string& prefix, const Tokenizer& tokenizer) {
  if (const auto manifest = find_manifest(prefix);
      manifest && manifest->tokenizer && manifest->tokenizer->identity != tokenizer.identity())
    fail(Exit::bad_config, prefix, ": was made with another tokenizer than the model's");
}

std::int64_t count_words(std::string_view text) {
  const auto is_space = [](char32_t point) {  // Python's str.isspace()
    return char_class(point) == CharClass::space || (0x1C <= point && point <= 0x1F);
  };
  std::int64_t words = 0, blanks = 0;  // blanks: since the last character that is no white space
  for (std::size_t at = 0; at < text.size();) {
    const char32_t point = next_code_point(text, at);
    if (is_space(point)) {
      blanks += point == U' ';
    } else {
      words += words == 0 ? 1 : blanks;
      blanks = 0;
    }
  }
  return words;
}

std::uint64_t input_bytes(const std::string& input) {
  const bool tokens = std::filesystem::exists(idx_path(input));
  return stored_size({tokens ? bin_path(input) : input});
}

void for_each_text(const std::string& input, const Tokenizer& tokenizer, std::int64_t vocab_size,
                   const Visit& visit) {
  const Words known{tokenizer, vocab_size};
  refuse_part_of_token_file(input);
  if (std::filesystem::exists(idx_path(input))) return visit_token_file(input, known, visit);
  LineReader reader({.inputs = {input}});
  LineBlock block;
  JsonLineParser parser({"text"});
  std::string plain;
  bool json = false;
  std::uint64_t before = 0;
  for (bool first = true; reader.next(block); first = false) {
    if (first) json = looks_like_json(block.text());
    if (first && !json) refuse_array(block);
    if (json)
      visit_json_lines(block, before, known, parser, visit);
    else
      plain += block.text();
    before = static_cast<std::uint64_t>(block.stored_end);
  }
  if (!json && !plain.empty()) visit_plain(plain, known, input, visit);
}

}  // namespace mt
