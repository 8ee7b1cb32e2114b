// ChatRenderer: goes through a chat template once, for one conversation.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/chat/chat_run.h"
#include "text/chat/chat_syntax.h"
#include "text/chat/chat_template.h"

namespace mt {

// The names that a loop's turn, a macro's call or a block has to itself, and those around it.
struct ChatScope {
  std::shared_ptr<ChatScope> outer = {};
  std::vector<std::pair<int, ChatValue>> values = {};  // by slot

  ChatValue* find(int slot);  // in this scope alone
  void set(int slot, ChatValue value);
};

class ChatRenderer {
 public:
  ChatRenderer(const ChatSyntax& syntax, const ChatInput& input);

  // Throws ChatFailure, with place() where; an Error is what the template raises.
  ChatText render();
  ChatValue value();  // of what is one output alone, else the text
  std::size_t place() const { return place_; }

  // For macros.
  ChatValue call_macro(const ChatStatement& macro, const std::shared_ptr<ChatScope>& around,
                       const ChatArguments& arguments);
  ChatRun& run() { return run_; }
  const ChatInput& input() const { return input_; }

 private:
  enum class Flow { on, leave, next };

  // Makes sure that evaluations in each other leave room on the stack.
  class Nested {
   public:
    explicit Nested(ChatRenderer& renderer);
    ~Nested() { --renderer_.nested_; }

   private:
    ChatRenderer& renderer_;
  };

  ChatValue evaluate(const ChatExpression& e);
  ChatValue evaluate_or_none(const ChatExpressionPtr& e) { return e ? evaluate(*e) : ChatValue(); }
  ChatValue name_value(int slot);
  ChatValue dict_of(const ChatExpression& e);
  ChatValue binary(const ChatExpression& e);
  ChatValue slice(const ChatExpression& e);
  ChatValue concatenated(const ChatExpression& e);
  ChatValue call(const ChatExpression& e);
  ChatValue filtered(const ChatExpression& e, ChatValue subject);
  bool compare(const ChatExpression& e);
  bool test(const ChatExpression& e);
  std::vector<ChatValue> values_of(const std::vector<ChatExpressionPtr>& parts, std::size_t from);
  ChatArguments arguments_of(const ChatExpression& e);

  Flow execute(const ChatBody& body);
  Flow execute(const ChatStatement& statement);
  Flow loop(const ChatStatement& statement);
  Flow one_turn(const ChatStatement& statement, ChatValue item, ChatObject* loop);
  void assign(const ChatTarget& target, const ChatValue& value);
  std::string captured(const ChatBody& body);
  void generation(const ChatStatement& statement);
  void set_block(const ChatStatement& statement);
  void put(std::string_view text);

  // Runs `act` in a new scope inside `outer`.
  template <class Act>
  auto in_scope(std::shared_ptr<ChatScope> outer, const Act& act);

  const ChatSyntax& syntax_;
  const ChatInput& input_;
  ChatRun run_;
  std::vector<std::optional<ChatValue>> given_;  // what the template sees of the input, by slot
  int loop_slot_ = -1;
  std::shared_ptr<ChatScope> scope_ = std::make_shared<ChatScope>();
  ChatText text_;
  std::string* out_ = &text_.text;
  std::size_t place_ = 0;
  int nested_ = 0, calls_ = 0;
};

}  // namespace mt
