// Where the tokens of a text begin, by what a decoder shows of them one by one.
#include "base/error.h"
#include "text/chat/chat_training.h"
#include "text/tokenizer.h"

namespace mt {
namespace {

// Goes along a text with what is decoded of it, in which blanks may be missing or too many, as
// where a word's first blank is left out at the beginning.
class Follower {
 public:
  Follower(const Tokenizer& tokenizer, std::string_view text)
      : tokenizer_(tokenizer), text_(text) {}

  std::size_t at() const { return at_; }

  void follow(std::string_view decoded) {
    for (const char c : decoded) {
      std::size_t next = at_;
      while (next < text_.size() && text_[next] != c && text_[next] == ' ') ++next;
      if (next < text_.size() && text_[next] == c)
        at_ = next + 1;
      else if (c != ' ')
        refuse();
    }
  }

  void finish() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (at_ < text_.size()) refuse();
  }

 private:
  [[noreturn]] void refuse() const {
    fail(Exit::bad_config, tokenizer_.type(), ": its tokens do not give the text back from byte ",
         at_, " on, so that where they stand in it is not known");
  }

  const Tokenizer& tokenizer_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::size_t> token_starts(const Tokenizer& tokenizer, std::string_view text,
                                      std::span<const std::int32_t> ids) {
  std::vector<std::size_t> starts;
  starts.reserve(ids.size());
  Follower follower(tokenizer, text);
  const auto decoder = tokenizer.stream_decoder();
  std::string decoded;
  for (const std::int32_t id : ids) {
    starts.push_back(follower.at());
    decoder->push(id, decoded);
    follower.follow(decoded);
    decoded.clear();
  }
  decoder->finish(decoded);
  follower.follow(decoded);
  follower.finish();
  return starts;
}

std::vector<bool> tokens_in(std::span<const std::size_t> starts, std::size_t size,
                            std::span<const ByteSpan> spans) {
  std::vector<bool> in(starts.size());
  std::size_t end = size;
  for (std::size_t i = starts.size(); i-- > 0;) {
    // Parts of one character begin together, and end with it.
    if (i + 1 < starts.size() && starts[i + 1] > starts[i]) end = starts[i + 1];
    for (const ByteSpan& span : spans)
      if (span.begin < end && starts[i] < span.end) in[i] = true;
  }
  return in;
}

}  // namespace mt
