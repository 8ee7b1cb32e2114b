#include "eval/eval_input.h"

#include <filesystem>
#include <vector>

#include "base/error.h"
#include "data/indexed_dataset.h"
#include "data/json_lines.h"
#include "data/line_reader.h"
#include "data/tokenizer_source.h"

namespace mt {
namespace {

using Visit = std::function<void(const EvalText&)>;

// Without the token that ends a document, if preprocessing has appended it.
void visit_token_file(const std::string& prefix, const Tokenizer& tokenizer, const Visit& visit) {
  const IndexedDataset data(prefix);
  if (const auto manifest = find_manifest(prefix);
      manifest && manifest->tokenizer && manifest->tokenizer->identity != tokenizer.identity())
    fail(Exit::bad_config, prefix, ": was made with another tokenizer than the model's");
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < data.sequences(); ++i) {
    ids.resize(static_cast<std::size_t>(data.length(i)));
    data.read(i, 0, ids);
    if (!ids.empty() && ids.back() == tokenizer.eod()) ids.pop_back();
    visit({ids, static_cast<std::int64_t>(tokenizer.decode(ids).size())});
  }
}

void visit_text(const std::string& text, const Tokenizer& tokenizer, const Visit& visit) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids);
  visit({ids, static_cast<std::int64_t>(text.size())});
}

void visit_json_lines(const LineBlock& block, const Tokenizer& tokenizer, JsonLineParser& parser,
                      const Visit& visit) {
  for_each_line(block, [&](std::string_view line, std::int64_t number) {
    if (const std::string wrong = parser.parse(line); !wrong.empty())
      fail(Exit::bad_data, block.file, ":", number, ": ", wrong);
    std::string text;
    for (const std::string_view part : parser.texts().front()) text += part;
    visit_text(text, tokenizer, visit);
  });
}

bool looks_like_json(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

}  // namespace

void for_each_text(const std::string& input, const Tokenizer& tokenizer, const Visit& visit) {
  if (std::filesystem::exists(idx_path(input))) return visit_token_file(input, tokenizer, visit);
  LineReader reader({.inputs = {input}});
  LineBlock block;
  JsonLineParser parser({"text"});
  std::string plain;
  bool json = false;
  for (bool first = true; reader.next(block); first = false) {
    if (first) json = looks_like_json(block.text());
    if (json)
      visit_json_lines(block, tokenizer, parser, visit);
    else
      plain += block.text();
  }
  if (!json && !plain.empty()) visit_text(plain, tokenizer, visit);
}

}  // namespace mt
