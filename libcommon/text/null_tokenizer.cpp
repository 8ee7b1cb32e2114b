#include "text/null_tokenizer.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/hash.h"

namespace mt {
namespace {

class NullStreamDecoder : public StreamDecoder {
 public:
  explicit NullStreamDecoder(const NullTokenizer& tokenizer) : tokenizer_(tokenizer) {}
  void push(std::int32_t id, std::string& text) override {
    if (!first_) text += ' ';
    first_ = false;
    text += tokenizer_.decode({&id, 1});
  }
  void finish(std::string&) override { first_ = true; }

 private:
  const NullTokenizer& tokenizer_;
  bool first_ = true;
};

}  // namespace

NullTokenizer::NullTokenizer(std::int32_t vocab_size)
    : eod_(vocab_size), identity_(hash_hex(as_bytes(concat(kType, " ", vocab_size)))) {}

// Python's int() too takes a number with white space around it, as a line's end.
void NullTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  constexpr const char* kSpaces = "\n\r\t\v\f";
  for (std::size_t at = 0; at < text.size();) {
    std::string_view word = text.substr(at, text.find(' ', at) - at);
    const std::size_t next = at + word.size() + 1;
    word.remove_prefix(std::min(word.find_first_not_of(kSpaces), word.size()));
    word = word.substr(0, word.find_last_not_of(kSpaces) + 1);
    const char* const end = word.data() + word.size();
    std::int32_t id = -1;
    const auto [stop, error] = std::from_chars(word.data(), end, id);
    if (!word.empty() && (error != std::errc() || stop != end || id < 0 || id > eod_))
      fail(Exit::bad_data, "text at byte ", at, " is not a token id, expected 0 to ", eod_);
    if (!word.empty()) ids.push_back(id);
    at = next;
  }
}

std::string NullTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    if (id < 0 || id > eod_) fail(Exit::bad_data, "token id ", id, ", expected 0 to ", eod_);
    if (!text.empty()) text += ' ';
    text += std::to_string(id);
  }
  return text;
}

std::unique_ptr<StreamDecoder> NullTokenizer::stream_decoder() const {
  return std::make_unique<NullStreamDecoder>(*this);
}

}  // namespace mt
