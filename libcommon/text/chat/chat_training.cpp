#include "text/chat/chat_training.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "text/chat/chat_strings.h"

namespace mt {
namespace {

constexpr std::string_view kMark = "\xEE\x83\xA5\xEE\x83\xA6";  // U+E0E5 U+E0E6: no text has them

bool is_assistant(const ChatValue& message) {
  const ChatValue* const role = message.find("role");
  return role != nullptr && role->is_text() && *role->text() == "assistant";
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

class Finder {
 public:
  Finder(const ChatTemplate& chat, const ChatInput& input) : chat_(chat), input_(input) {
    input_.add_generation_prompt = input_.continue_final_message = false;
    if (!input.messages.is_list()) fail(Exit::bad_data, chat.name(), ": messages: expected a list");
    for (ChatValue message : *input.messages.items()) {
      const ChatValue* const weight = message.find("weight");
      weights_.push_back(weight == nullptr || python_truth_of(*weight));
      if (weight != nullptr) message.erase("weight");
      messages_.push_back(std::move(message));
    }
    input_.messages = ChatValue::list(messages_);
    whole_ = chat.render(input_);
  }

  TrainedText find(const ChatTrainOptions& options) {
    TrainedText found;
    if (options.train_on == TrainOn::all_text)
      found.spans = {{0, whole_.text.size()}};
    else if (chat_.has_generation() && whole_.all_placed)
      found.spans = generated(options.train_on);
    else
      for (const std::size_t k : wanted(options.train_on)) found.spans.push_back(turn(k));
    if (options.mask_reasoning) found.spans = without_reasoning(found.spans);
    found.spans = joined(std::move(found.spans));
    found.text = std::move(whole_.text);
    return found;
  }

 private:
  static bool python_truth_of(const ChatValue& weight) {
    return !(weight.integer() != nullptr && *weight.integer() == 0) &&
           !(weight.real() != nullptr && *weight.real() == 0) &&
           !(weight.boolean() != nullptr && !*weight.boolean());
  }

  // The numbers of the assistant's messages that are learnt.
  std::vector<std::size_t> wanted(TrainOn train_on) const {
    std::vector<std::size_t> numbers;
    for (std::size_t k = 0; k < messages_.size(); ++k)
      if (is_assistant(messages_[k])) numbers.push_back(k);
    if (train_on == TrainOn::last && numbers.size() > 1)
      numbers.erase(numbers.begin(), numbers.end() - 1);
    std::erase_if(numbers, [&](std::size_t k) { return !weights_[k]; });
    return numbers;
  }

  // What the template makes of the first `count` messages; nothing where it raises an error.
  std::optional<ChatText> prefix(std::size_t count, bool prompt) const {
    ChatInput input = input_;
    input.messages = ChatValue::list(
        {messages_.begin(), messages_.begin() + static_cast<std::ptrdiff_t>(count)});
    input.add_generation_prompt = prompt;
    try {
      return chat_.render(input);
    } catch (const Error& error) {
      if (error.code() != Exit::bad_data) throw;
      return {};
    }
  }

  // Blocks of the template: which of them belong to which message is known where each of the
  // assistant's has one, else by how many there are without the messages from it on.
  std::vector<ByteSpan> generated(TrainOn train_on) const {
    const auto of_assistant =
        static_cast<std::size_t>(std::ranges::count_if(messages_, is_assistant));
    const std::vector<std::size_t> numbers = wanted(train_on);
    if (numbers.size() == of_assistant) return whole_.generated;
    std::vector<ByteSpan> spans;
    std::size_t turn = 0;
    for (std::size_t k = 0; k < messages_.size(); ++k) {
      if (!is_assistant(messages_[k])) continue;
      const std::size_t first = turn++;
      if (std::ranges::find(numbers, k) == numbers.end()) continue;
      if (whole_.generated.size() == of_assistant) {
        spans.push_back(whole_.generated[first]);
        continue;
      }
      const auto before = prefix(k, false), with = prefix(k + 1, false);
      if (!before || !with || with->generated.size() < before->generated.size() ||
          with->generated.size() > whole_.generated.size())
        refuse(k);
      for (std::size_t i = before->generated.size(); i < with->generated.size(); ++i)
        spans.push_back(whole_.generated[i]);
    }
    return spans;
  }

  [[noreturn]] void refuse(std::size_t k) const {
    fail(Exit::bad_data, chat_.name(), ": where message ", k + 1,
         " stands in the text cannot be told; a template with generation blocks says so");
  }

  std::string content(std::size_t k) const {
    const ChatValue* const content = messages_[k].find("content");
    const std::string* const text = content == nullptr ? nullptr : content->text();
    return text == nullptr ? "" : std::string(strip_text(*text, Side::both));
  }

  // From behind the generation prompt to the end of what the turn adds; blanks behind what ends the
  // turn are the next turn's.
  ByteSpan turn(std::size_t k) const {
    const auto prompt = prefix(k, true), with = prefix(k + 1, false);
    const std::string& text = whole_.text;
    if (prompt && with && with->text.starts_with(prompt->text)) {
      const ByteSpan span{prompt->text.size(), common_prefix(with->text, text)};
      if (span.begin < span.end && holds(span, k, with->text.size() == span.end))
        return without_blanks(span, k);
    }
    return marked_turn(k, with);
  }

  // Whether all that the message says is in the span; `whole`: all that its turn adds is.
  bool holds(ByteSpan span, std::size_t k, bool whole) const {
    const std::string_view said =
        std::string_view(whole_.text).substr(span.begin, span.end - span.begin);
    return whole || (messages_[k].find("tool_calls") == nullptr && !content(k).empty() &&
                     said.find(content(k)) != said.npos);
  }

  ByteSpan without_blanks(ByteSpan span, std::size_t k) const {
    const std::string_view said =
        std::string_view(whole_.text).substr(span.begin, span.end - span.begin);
    const std::string_view left = strip_text(said, Side::right);
    const std::string text = content(k);
    const bool ends_bare = !text.empty() && left.ends_with(text);  // blanks alone end the turn
    return left.empty() || ends_bare ? span : ByteSpan{span.begin, span.begin + left.size()};
  }

  // By the text that stands in the place of what the message says when that is something else.
  ByteSpan marked_turn(std::size_t k, const std::optional<ChatText>& with) const {
    if (messages_[k].find("tool_calls") != nullptr || content(k).empty()) refuse(k);
    const auto marked =
        [&](std::size_t count) -> std::optional<std::pair<std::string, std::string>> {
      ChatInput input = input_;
      std::vector<ChatValue> messages(messages_.begin(),
                                      messages_.begin() + static_cast<std::ptrdiff_t>(count));
      messages[k].set("content", kMark);
      input.messages = ChatValue::list(std::move(messages));
      const std::string text = chat_.render(input).text;
      const std::size_t at = text.find(kMark);
      if (at == text.npos || text.find(kMark, at + 1) != text.npos) return {};
      return std::pair(text.substr(0, at), text.substr(at + kMark.size()));
    };
    const std::string& text = whole_.text;
    const auto in_whole = marked(messages_.size());
    if (!in_whole) refuse(k);
    const auto& [before, behind] = *in_whole;
    if (text.size() < before.size() + behind.size() || !text.starts_with(before) ||
        !text.ends_with(behind))
      refuse(k);
    const std::size_t end = text.size() - behind.size();
    const auto alone = with ? marked(k + 1) : std::nullopt;
    const std::size_t ending = alone ? common_prefix(alone->second, behind) : 0;
    return without_blanks({before.size(), end + ending}, k);
  }

  std::vector<ByteSpan> without_reasoning(const std::vector<ByteSpan>& spans) const {
    constexpr std::string_view kOpen = "<think>", kClose = "</think>";
    const std::string_view text = whole_.text;
    std::vector<ByteSpan> kept;
    for (const ByteSpan& span : spans) {
      // A generation prompt may have opened it.
      bool thinks = strip_text(text.substr(0, span.begin), Side::right).ends_with(kOpen);
      for (std::size_t at = span.begin; at < span.end;) {
        const std::string_view mark = thinks ? kClose : kOpen;
        const std::size_t found = std::min(text.find(mark, at), span.end);
        if (!thinks) kept.push_back({at, found});
        at = thinks ? std::min(found + kClose.size(), span.end) : found;
        thinks = !thinks;
      }
    }
    return kept;
  }

  static std::vector<ByteSpan> joined(std::vector<ByteSpan> spans) {
    std::ranges::sort(spans, {}, &ByteSpan::begin);
    std::vector<ByteSpan> apart;
    for (const ByteSpan& span : spans) {
      if (span.begin >= span.end) continue;
      if (!apart.empty() && span.begin <= apart.back().end)
        apart.back().end = std::max(apart.back().end, span.end);
      else
        apart.push_back(span);
    }
    return apart;
  }

  const ChatTemplate& chat_;
  ChatInput input_;
  std::vector<ChatValue> messages_;
  std::vector<bool> weights_;  // whether each may be learnt
  ChatText whole_;
};

}  // namespace

TrainedText trained_text(const ChatTemplate& chat, const ChatInput& input,
                         const ChatTrainOptions& options) {
  return Finder(chat, input).find(options);
}

}  // namespace mt
