#include "text/chat/chat_template.h"

#include <algorithm>

#include "base/error.h"
#include "text/chat/chat_lexer.h"
#include "text/chat/chat_renderer.h"
#include "text/chat/chat_strings.h"
#include "text/chat/chat_syntax.h"

namespace mt {

// A content of one part.
static ChatValue text_part(std::string_view text) {
  return ChatValue::list({ChatValue::dict({{"type", "text"}, {"text", text}})});
}

ChatTemplate::ChatTemplate(std::string_view source, std::string name, ChatDialect dialect)
    : name_(std::move(name)), source_(source) {
  try {
    syntax_ = std::make_unique<const ChatSyntax>(parse_chat_template(source, dialect));
  } catch (const ChatSyntaxError& error) {
    fail(Exit::bad_config, name_, ":", chat_place(chat_plain_source(source, dialect), error.at),
         ": ", error.what);
  }
  if (dialect != ChatDialect::chats) return;
  Shown shown = what_it_shows(false);
  if (!shown.text && !shown.part) shown = what_it_shows(true);
  reads_texts_ = shown.text.value_or(false) || !shown.part.value_or(false);
  reads_parts_ = shown.part.value_or(!shown.text);
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

// Whether what a user says, as a text and as a part, can be found in the text that is made of it.
ChatTemplate::Shown ChatTemplate::what_it_shows(bool behind_system) const {
  constexpr std::string_view kText = "CONTENT";
  const auto shows = [&](const auto& form) -> std::optional<bool> {
    std::vector<ChatValue> messages;
    const auto add = [&](std::string_view role, std::string_view text) {
      messages.push_back(ChatValue::dict({{"role", role}, {"content", form(text)}}));
    };
    if (behind_system) add("system", "SYSTEM");
    add("user", kText);
    ChatInput input{.messages = ChatValue::list(std::move(messages)), .steps = 100'000};
    for (const char* const token : {"bos_token", "eos_token", "unk_token", "pad_token"})
      input.special_tokens[token] = "";
    try {
      const std::string made = ChatRenderer(*syntax_, input).render().text;
      // A list that is printed as it is was not gone through.
      return made.find(kText) != made.npos && made.find("'type'") == made.npos;
    } catch (const ChatFailure&) {
    } catch (const Error&) {  // that the template raises
    }
    return {};
  };
  return {.text = shows([](std::string_view text) { return ChatValue(text); }),
          .part = shows(text_part)};
}

ChatValue ChatTemplate::in_its_form(const ChatValue& content) const {
  if (content.is_text() && !reads_texts_) return text_part(*content.text());
  if (content.is_list() && !reads_parts_ && std::ranges::any_of(*content.items(), is_image_part))
    fail(Exit::bad_data, name_, ": the template has no place for images");
  return content;
}

bool ChatTemplate::has_generation() const { return syntax_->has_generation; }

// Behind the content that a model is to go on with.
static constexpr std::string_view kHere = "CONTINUE_FINAL_MESSAGE_TAG ";

// Puts kHere at the end of the last message's text, which is returned.
static std::string mark_end(ChatInput& input, const std::string& name) {
  std::vector<ChatValue> messages =
      input.messages.is_list() ? *input.messages.items() : std::vector<ChatValue>{};
  const ChatValue* const content = messages.empty() ? nullptr : messages.back().find("content");
  if (content == nullptr)
    fail(Exit::bad_data, name, ": the final message has no content to continue");
  std::string text;
  ChatValue changed;
  if (content->is_text()) {
    text = *content->text();
    changed = text + std::string(kHere);
  } else {
    std::vector<ChatValue> parts =
        content->is_list() ? *content->items() : std::vector<ChatValue>{};
    const auto last = std::find_if(parts.rbegin(), parts.rend(), [](const ChatValue& part) {
      return part.find("text") != nullptr && part.find("text")->is_text();
    });
    if (last == parts.rend())
      fail(Exit::bad_data, name, ": the final message has no text to continue");
    text = *last->find("text")->text();
    last->set("text", text + std::string(kHere));
    changed = ChatValue::list(std::move(parts));
  }
  messages.back().set("content", std::move(changed));
  input.messages = ChatValue::list(std::move(messages));
  return text;
}

static void cut_behind(ChatText& made, const std::string& text, const std::string& name) {
  const std::string_view mark = strip_text(kHere, Side::right);
  const std::size_t end = made.text.rfind(mark);
  if (end == made.text.npos || made.text.find(strip_text(text, Side::both)) == made.text.npos)
    fail(Exit::bad_data, name,
         ": the final message cannot be continued, because the template changes its content");
  const bool is_trimmed = made.text.compare(end, kHere.size(), kHere) != 0;
  made.text.resize(end);
  if (is_trimmed) made.text.resize(strip_text(made.text, Side::right).size());
  for (ByteSpan& span : made.generated) {
    span.begin = std::min(span.begin, made.text.size());
    span.end = std::min(span.end, made.text.size());
  }
}

ChatText ChatTemplate::render(const ChatInput& input) const {
  ChatInput marked = input;
  if (marked.messages.is_list()) {
    std::vector<ChatValue> messages = *marked.messages.items();
    for (ChatValue& message : messages)
      if (const ChatValue* const content = message.find("content"))
        message.set("content", in_its_form(*content));
    marked.messages = ChatValue::list(std::move(messages));
  }
  const std::string last = input.continue_final_message ? mark_end(marked, name_) : "";
  ChatRenderer renderer(*syntax_, marked);
  try {
    ChatText text = renderer.render();
    if (input.continue_final_message) cut_behind(text, last, name_);
    return text;
  } catch (const ChatFailure& failure) {
    fail(Exit::bad_data, name_, ":", chat_place(syntax_->source, renderer.place()), ": ",
         failure.what);
  }
}

ChatValue ChatTemplate::value(const ChatInput& input) const {
  ChatRenderer renderer(*syntax_, input);
  try {
    return renderer.value();
  } catch (const ChatFailure& failure) {
    fail(Exit::bad_data, name_, ":", chat_place(syntax_->source, renderer.place()), ": ",
         failure.what);
  }
}

static bool is_constant(const ChatExpression& e) {
  using Kind = ChatExpression::Kind;
  switch (e.kind) {
    case Kind::constant:
    case Kind::list:
    case Kind::tuple:
    case Kind::dict:
    case Kind::negate:
      return std::ranges::all_of(e.parts, [](const auto& part) { return is_constant(*part); });
    default:
      return false;
  }
}

ChatValue chat_constant(std::string_view expression, std::string_view place) {
  try {
    const ChatSyntax syntax = parse_chat_template(concat("{{", expression, "}}"), {});
    if (syntax.body.size() == 1 && syntax.body[0].expression &&
        is_constant(*syntax.body[0].expression))
      return ChatRenderer(syntax, {}).value();
  } catch (const ChatSyntaxError&) {
  } catch (const ChatFailure&) {
  }
  fail(Exit::bad_data, place, ": expected constants as Python writes them, such as ['a', 'b']");
}

}  // namespace mt
