#include "serve/chat_reader.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"

namespace mt {
namespace {

// What is said, in one go and byte by byte: "{thought}text|name(arguments)|...".
std::string said(const ChatForm& form, std::string_view prompt, std::string_view text,
                 bool in_bytes) {
  ChatReader reader(form, prompt);
  std::string thought, shown, calls;
  const auto add = [&](const ChatReader::Said& part) {
    thought += part.thought;
    shown += part.text;
    for (const ToolCall& call : part.calls) calls += concat("|", call.name, call.arguments);
  };
  for (std::size_t i = 0; in_bytes && i < text.size(); ++i)
    add(reader.take(text.substr(i, 1), false));
  add(reader.take(in_bytes ? "" : text, true));
  return (thought.empty() ? "" : "{" + thought + "}") + shown + calls;
}

void expect_said(const ChatForm& form, std::string_view prompt, std::string_view text,
                 std::string_view expected) {
  for (const bool in_bytes : {false, true})
    EXPECT_EQ(said(form, prompt, text, in_bytes), expected)
        << text << (in_bytes ? ", in bytes" : "");
}

TEST(ChatReader, Thoughts) {
  const ChatForm form{.thoughts = ThoughtForm::think};
  expect_said(form, "", "<think>\nWell <b>.\n</think>\n\nYes.\n", "{\nWell <b>.\n}Yes.\n");
  expect_said(form, "", "\n<think></think>Yes", "Yes");
  expect_said(form, "", "Yes <think>no</think>", "Yes <think>no</think>");
  expect_said(form, "", "<thin", "<thin");
  expect_said(form, "", "<think>cut </thi", "{cut </thi}");
  expect_said(form, "<|assistant|><think>\n", "Well\n</think>\nYes", "{Well\n}Yes");
  expect_said(form, "<think>\n\n</think>\n\n", "Yes", "Yes");
  expect_said({.thoughts = ThoughtForm::mistral}, "", "[THINK]Well[/THINK]Yes", "{Well}Yes");
  expect_said({}, "", "<think>a</think>", "<think>a</think>");
}

TEST(ChatReader, ThoughtsAndCalls) {
  const ChatForm form{.thoughts = ThoughtForm::think, .calls = ToolForm::hermes};
  expect_said(form, "",
              "<think><tool_call>no</tool_call></think>\n<tool_call>{\"name\":\"f\","
              "\"arguments\":{}}</tool_call>",
              "{<tool_call>no</tool_call>}|f{}");
}

TEST(ChatReader, Channels) {
  const ChatForm form{.thoughts = ThoughtForm::channels, .calls = ToolForm::channels};
  expect_said(
      form, "",
      "<|channel|>analysis<|message|>Well.<|end|><|start|>assistant<|channel|>final<|message|>"
      "Yes <|",
      "{Well.}Yes <|");
  expect_said(form, "",
              "<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>commentary "
              "to=functions.f <|constrain|>json<|message|>{\"a\": 1}",
              "{A}|f{\"a\":1}");
  expect_said(form, "",
              "<|start|>assistant to=functions.f<|channel|>commentary<|message|>{}<|call|>"
              "<|start|>assistant<|channel|>commentary<|message|>I call.<|end|>",
              "I call.|f{}");
  expect_said(form, "", "<|channel|>commentary to=functions.f<|message|>{", "{");
  expect_said(form, "", "<|channel|>anal", "");
  expect_said(form, "", " to=functions.f<|channel|>comm", "");
  expect_said(form, "", "<|channel|>final<|message|>A<|start|>assistant<|channel|>fin", "A");
  expect_said(form, "", "Plain", "Plain");
  expect_said(form, "", "a <| b, or <|channel|>", "a <| b, or <|channel|>");
  expect_said({.calls = ToolForm::channels}, "",
              "<|channel|>analysis<|message|>Well.<|end|><|channel|>final<|message|>Yes",
              "Well.Yes");
}

TEST(ChatReader, FormsOfTemplates) {
  for (const char* const name : {"deepseekv3", "glm4moe", "nemotron_3_nano", "qwen3"})
    EXPECT_EQ(thought_form_of(read_file(concat(MT_TESTDATA "/trl/masks/", name, ".jinja"))),
              ThoughtForm::think)
        << name;
  for (const char* const name : {"llama3", "qwen2_5", "gemma"})
    EXPECT_EQ(thought_form_of(read_file(concat(MT_TESTDATA "/trl/masks/", name, ".jinja"))),
              std::nullopt)
        << name;
  EXPECT_EQ(thought_form_of("[THINK]"), ThoughtForm::mistral);
  EXPECT_EQ(thought_form_of("<|channel|>analysis<|message|>"), ThoughtForm::channels);
}

}  // namespace
}  // namespace mt
