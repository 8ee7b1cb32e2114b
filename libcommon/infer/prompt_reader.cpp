#include "infer/prompt_reader.h"

#include <unistd.h>

#include <cstdio>

#include "base/error.h"
#include "base/input/byte_order_mark.h"
#include "infer/chat_prompts.h"

namespace mt {

static constexpr std::size_t kPiece = 1 << 16;        // bytes read at a time
static constexpr std::size_t kLongestLine = 1 << 30;  // as mt-preprocess takes

static constexpr const char* kChatAlone =
    "--chat-template, --chat-template-kwargs: are for the messages of JSON lines on stdin";

// A line without its end, LF or CR LF; the last may lack it.
std::optional<std::string> PromptReader::next_line(bool wait) {
  if (!input_) {
    terminal_ = ::isatty(STDIN_FILENO) != 0;
    if (terminal_) std::fputs("> ", stderr);
    input_ = std::make_unique<ByteSource>("-", [] {});
  }
  for (std::size_t searched = 0;;) {
    const std::size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos || (ended_ && !buffer_.empty())) {
      const std::size_t mark = count_ == 0 ? byte_order_mark(buffer_, "stdin") : 0;
      std::string line = buffer_.substr(mark, end == std::string::npos ? end : end - mark);
      buffer_.erase(0, end == std::string::npos ? end : end + 1);
      if (end != std::string::npos && line.ends_with('\r')) line.pop_back();
      return line;
    }
    if (ended_ || (!wait && !input_->ready())) return {};
    if (buffer_.size() > kLongestLine)
      fail(Exit::bad_data, "stdin:", count_ + 1, ": line of more than ", kLongestLine, " bytes");
    searched = buffer_.size();
    buffer_.resize(searched + kPiece);
    const std::size_t count = input_->read(std::span(buffer_).subspan(searched));
    buffer_.resize(searched + count);
    ended_ = count == 0;
    if (ended_ && terminal_) std::fputs("\n", stderr);
  }
}

void PromptReader::warn_of_members(const Prompt& prompt) {
  for (const auto& [key, value] : prompt.others) {
    if (key == "images" || !members_.insert(key).second) continue;
    if (const std::string meant = meant_member(key); !meant.empty())
      warn_(concat(prompt.place, ": \"", key, "\" changes nothing here; did you mean \"", meant,
                   "\"?"));
  }
}

std::optional<Prompt> PromptReader::next(bool wait) {
  Prompt prompt = defaults_;
  if (!from_stdin_) {
    if (chat_.is_asked()) fail(Exit::usage, kChatAlone);
    if (count_ == texts_.size()) return {};
    prompt.text = texts_[count_++];
    prompt.place = concat("prompt ", count_);
    return prompt;
  }
  if (terminal_ && count_ > 0 && wait && !ended_) std::fputs("> ", stderr);
  std::optional<std::string> line = next_line(wait);
  if (!line) return {};
  if (++count_ == 1) json_ = !terminal_ && line->starts_with('{');
  prompt.place = concat("stdin:", count_);
  if (!json_ && chat_.is_asked()) fail(Exit::usage, kChatAlone);
  if (json_) {
    prompt = prompt_of_json(*line, prompt, chat_, grammars_);
    if (warn_) warn_of_members(prompt);
    return prompt;
  }
  prompt.text = std::move(*line);
  return prompt;
}

}  // namespace mt
