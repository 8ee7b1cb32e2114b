// The values of chat templates that hold more than data: namespaces, loops, macros and the global
// functions.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/chat/chat_renderer.h"

namespace mt {

// Whose attributes a template may set.
class ChatNamespace : public ChatObject {
 public:
  std::string type() const override { return "Namespace"; }
  std::string shown() const override;
  std::optional<ChatValue> attribute(const std::string& name) const override;
  void set(const std::string& name, ChatValue value);

 private:
  std::vector<std::pair<std::string, ChatValue>> values_;
};

// What `loop` is in a loop.
class ChatLoop : public ChatObject {
 public:
  ChatLoop(ChatRun& run, std::vector<ChatValue> items, int depth)
      : run_(run), items_(std::move(items)), depth_(depth) {}
  std::string type() const override { return "LoopContext"; }
  std::optional<ChatValue> attribute(const std::string& name) const override;
  const std::vector<ChatValue>& items() const { return items_; }
  int depth() const { return depth_; }
  std::size_t at = 0;

 private:
  ChatRun& run_;
  std::vector<ChatValue> items_;
  int depth_;
};

class ChatMacro : public ChatObject {
 public:
  ChatMacro(ChatRenderer& renderer, const ChatStatement& macro, std::shared_ptr<ChatScope> around)
      : renderer_(renderer), macro_(macro), around_(std::move(around)) {}
  std::string type() const override { return "Macro"; }
  std::string shown() const override { return "<Macro '" + macro_.text + "'>"; }
  ChatValue call(const ChatArguments& arguments) override {
    return renderer_.call_macro(macro_, around_, arguments);
  }

 private:
  ChatRenderer& renderer_;
  const ChatStatement& macro_;
  std::shared_ptr<ChatScope> around_;
};

// A function that every template sees, by its name; nothing: there is none.
std::optional<ChatValue> chat_function(ChatRenderer& renderer, std::string_view name);

}  // namespace mt
