#include "text/bert/bert_tokenizer.h"

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "text/unicode/unicode.h"

namespace mt {
namespace {

// The next line of `text` without its end: LF, CR LF or CR, as Python reads text files.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find_first_of("\r\n"), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + (text.substr(end, 2) == "\r\n" ? 2 : 1), text.size()));
  return line;
}

std::string_view strip(std::string_view line) {
  std::size_t begin = line.size(), end = 0;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t start = at;
    if (is_python_space(next_code_point(line, at))) continue;
    begin = std::min(begin, start);
    end = at;
  }
  return begin < end ? line.substr(begin, end - begin) : std::string_view();
}

std::string identity_of(std::string_view type, std::string_view vocabulary) {
  Hasher hasher;
  hasher.update(type);
  hasher.update(hash_hex(as_bytes(vocabulary)));
  return hasher.hex();
}

}  // namespace

BertTokenizer::BertTokenizer(std::string_view type, const std::string& vocab_path,
                             std::int32_t extra_ids)
    : type_(type), lower_case_(type == kLowerCaseType), extra_ids_(extra_ids) {
  const std::string content = read_regular_file(vocab_path);
  if (!is_valid_utf8(content)) fail(Exit::bad_data, vocab_path, ": not UTF-8");
  identity_ = identity_of(type_, content);
  for (std::string_view rest = content; !rest.empty();) {
    const std::string token(strip(take_line(rest)));
    if (!ids_.emplace(token, vocab_size()).second)
      fail(Exit::bad_data, vocab_path, ":", vocab_size() + 1, ": token ", token, " is there twice");
    tokens_.push_back(token);
  }
  for (const char* needed : {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"})
    if (!ids_.contains(needed)) fail(Exit::bad_data, vocab_path, ": no token ", needed);
  std::vector<std::pair<std::string_view, std::int32_t>> vocabulary(ids_.begin(), ids_.end());
  word_piece_ = WordPiece(vocabulary, {.unknown = ids_.find("[UNK]")->second});
  add_token("[BOS]");
  eod_ = add_token("[EOS]");
  for (std::int32_t i = 0; i < extra_ids; ++i) add_token(concat("<extra_id_", i, ">"));
}

SpecialTokens BertTokenizer::special_ids() const {
  const auto id = [&](std::string_view token) { return ids_.find(token)->second; };
  SpecialTokens special{.cls = id("[CLS]"),
                        .sep = id("[SEP]"),
                        .mask = id("[MASK]"),
                        .pad = id("[PAD]"),
                        .bos = id("[BOS]"),
                        .eos = eod_,
                        .unk = id("[UNK]")};
  for (std::int32_t i = 0; i < extra_ids_; ++i)
    special.extra.push_back(id(concat("<extra_id_", i, ">")));
  return special;
}

std::int32_t BertTokenizer::add_token(const std::string& token) {
  const auto [place, is_new] = ids_.emplace(token, vocab_size());
  if (is_new) tokens_.push_back(token);
  return place->second;
}

const std::string& BertTokenizer::token(std::int32_t id) const {
  if (id < 0 || id >= vocab_size())
    fail(Exit::bad_data, "token id ", id, ", expected 0 to ", vocab_size() - 1);
  return tokens_[id];
}

// --- Decoding. ---

namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string result;
  std::string_view rest = text;
  for (std::size_t at; (at = rest.find(from)) != rest.npos; rest.remove_prefix(at + from.size()))
    result.append(rest.substr(0, at)).append(to);
  text = result.append(rest);
}

// Joins to the word before what Megatron's decode() joins.
void clean_up(std::string& text) {
  using Rule = std::pair<std::string_view, std::string_view>;
  for (const auto& [from, to] : {Rule{" .", "."},
                                 {" ?", "?"},
                                 {" !", "!"},
                                 {" ,", ","},
                                 {" ' ", "'"},
                                 {" n't", "n't"},
                                 {" 'm", "'m"},
                                 {" 's", "'s"},
                                 {" 've", "'ve"},
                                 {" 're", "'re"}})
    replace_all(text, from, to);
}

// Tokens that may yet change each other's text are held together.
class BertStream : public StreamDecoder {
 public:
  explicit BertStream(const BertTokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void push(std::int32_t id, std::string& text) override {
    const std::string& token = tokenizer_.token(id);
    if (begins_anew(token)) flush(text);
    if (started_) held_ += ' ';
    started_ = true;
    held_ += token;
    last_ = token;
  }

  void finish(std::string& text) override {
    held_.resize(held_.find_last_not_of(' ') + 1);
    flush(text);
    last_ = {};
    started_ = shown_ = false;
  }

 private:
  // Each rule of clean_up() begins at a space, and one also ends at a space, behind an apostrophe.
  bool begins_anew(std::string_view token) const {
    return started_ && !last_.empty() && !token.empty() && !last_.ends_with('\'') &&
           !token.starts_with("##") && std::string_view(".?!,'n").find(token[0]) == token.npos;
  }

  // White space at both ends of the whole text goes; tokens have none but for empty ones, behind
  // which nothing begins anew.
  void flush(std::string& text) {
    replace_all(held_, " ##", "");
    if (!shown_) held_.erase(0, held_.find_first_not_of(' '));
    shown_ |= !held_.empty();
    clean_up(held_);
    text += held_;
    held_.clear();
  }

  const BertTokenizer& tokenizer_;
  std::string held_;            // tokens and the spaces before them
  std::string_view last_ = {};  // token
  bool started_ = false, shown_ = false;
};

}  // namespace

std::unique_ptr<StreamDecoder> BertTokenizer::stream_decoder() const {
  return std::make_unique<BertStream>(*this);
}

std::string BertTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  BertStream stream(*this);
  for (const std::int32_t id : ids) stream.push(id, text);
  stream.finish(text);
  return text;
}

}  // namespace mt
