// Any bytes as a chat template, up to a line "---", with a conversation behind it, else with one of
// two turns: refused with a word, or rendered, the same each time, to UTF-8 with blocks inside of
// it; and what is learnt of it lies in order.
//
// Parser: libcommon/text/chat/chat_lexer.cpp
// Parser: libcommon/text/chat/chat_parser.cpp
// Parser: libcommon/text/chat/chat_statements.cpp
// Parser: libcommon/text/chat/chat_renderer.cpp
// Parser: libcommon/text/chat/chat_evaluate.cpp
// Parser: libcommon/text/chat/chat_filters.cpp
// Parser: libcommon/text/chat/chat_methods.cpp
// Parser: libcommon/text/chat/chat_format.cpp
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chat/chat_template.h"
#include "text/chat/chat_training.h"

static mt::ChatInput input_of(std::string_view conversation) {
  constexpr std::string_view kTurns =
      R"({"messages":[{"role":"user","content":"a, b"},{"role":"assistant","content":"é<b>"}],)"
      R"("tools":[{"name":"f"}],"kwargs":{"d":{"k":[1,2.5,null]}}})";
  mt::ChatInput input;
  const mt::ChatValue line =
      mt::chat_value_of_json(conversation.empty() ? kTurns : conversation, "input");
  for (const auto& [name, member] : {std::pair("messages", &mt::ChatInput::messages),
                                     {"tools", &mt::ChatInput::tools},
                                     {"kwargs", &mt::ChatInput::kwargs}})
    if (const mt::ChatValue* const value = line.find(name)) input.*member = *value;
  input.add_generation_prompt = true;
  input.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  input.clock = [] { return std::time_t{0}; };
  input.steps = 20'000;
  return input;
}

static std::optional<mt::ChatText> rendered(const mt::ChatTemplate& chat,
                                            const mt::ChatInput& input) {
  try {
    return chat.render(input);
  } catch (const mt::Error&) {
    return std::nullopt;
  }
}

static void check(const mt::ChatTemplate& chat, const mt::ChatInput& input) {
  const auto made = rendered(chat, input), again = rendered(chat, input);
  if (made.has_value() != again.has_value()) std::abort();
  if (made) {
    if (made->text != again->text || !mt::is_valid_utf8(made->text)) std::abort();
    for (const mt::ByteSpan& span : made->generated)
      if (span.begin > span.end || span.end > made->text.size()) std::abort();
  }
  std::size_t end = 0;
  const mt::TrainedText learnt = mt::trained_text(chat, input, {.mask_reasoning = true});
  for (const mt::ByteSpan& span : learnt.spans) {
    if (span.begin < end || span.begin >= span.end || span.end > learnt.text.size()) std::abort();
    end = span.end;
  }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(bytes), size);
  constexpr std::string_view kEnd = "\n---\n";
  const std::size_t end = std::min(all.find(kEnd), size);
  try {
    const mt::ChatInput input =
        input_of(end == size ? std::string_view() : all.substr(end + kEnd.size()));
    check(mt::ChatTemplate(all.substr(0, end), "t"), input);
  } catch (const mt::Error&) {
    // Refused, with a word.
  }
  return 0;
}
