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

void NullTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    std::int32_t id = -1;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, id);
    if (end > at && (error != std::errc() || stop != text.data() + end || id < 0 || id > eod_))
      fail(Exit::bad_data, "text at byte ", at, " is not a token id, expected 0 to ", eod_);
    if (end > at) ids.push_back(id);
    at = end + 1;
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
