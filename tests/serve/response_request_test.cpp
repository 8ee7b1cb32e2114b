#include "serve/response_request.h"

#include <gtest/gtest.h>

#include "serve/api_error.h"

namespace mt {
namespace {

std::string chat_of(const std::string& members) {
  return read_response_request("{" + members + "}").chat;
}

std::string refusal(const std::string& members) {
  try {
    return chat_of(members);
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.message;
  }
}

TEST(ResponseRequest, IsAChat) {
  EXPECT_EQ(chat_of(R"("input":"Hi")"), R"({"messages":[{"role":"user","content":"Hi"}]})");
  EXPECT_EQ(
      chat_of(R"("instructions":"Be kind.","input":[{"role":"user","content":[{"type":"input_text",
          "text":"a"},{"type":"input_image","image_url":"data:x"}]}],"max_output_tokens":5,
          "model":"m","temperature":0,"stream":true,"top_k":3,"user":"me","store":false,
          "include":["reasoning.encrypted_content"])"),
      R"({"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":[{"type":"text",)"
      R"("text":"a"},{"type":"image_url","image_url":{"url":"data:x"}}]}],"max_completion_tokens":5,)"
      R"("temperature":0,"model":"m","stream":true,"top_k":3,"store":false})");
}

// What the model thought, said and called in one turn is one message.
TEST(ResponseRequest, Turns) {
  EXPECT_EQ(
      chat_of(R"("input":[{"type":"message","role":"user","content":"a"},
          {"type":"reasoning","id":"r","summary":[],"content":[{"type":"reasoning_text","text":"t"}]},
          {"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]},
          {"type":"function_call","call_id":"1","name":"f","arguments":"{}"},
          {"type":"function_call","call_id":"2","name":"g","arguments":"{}"},
          {"type":"function_call_output","call_id":"1","output":"x"},
          {"type":"function_call","call_id":"3","name":"f","arguments":"{}"}])"),
      R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b"}],)"
      R"("reasoning_content":"t","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},)"
      R"({"id":"2","type":"function","function":{"name":"g","arguments":"{}"}}]},)"
      R"({"role":"tool","tool_call_id":"1","content":"x"},)"
      R"({"role":"assistant","content":"","tool_calls":[{"id":"3","type":"function","function":{"name":"f","arguments":"{}"}}]}]})");
}

// A thought that led to nothing is of no later turn.
TEST(ResponseRequest, ThoughtsOfNothing) {
  const std::string thought =
      R"({"type":"reasoning","summary":[{"type":"summary_text","text":"t"}]},)";
  EXPECT_EQ(chat_of(R"("input":[)" + thought + R"({"role":"user","content":"a"},
                {"role":"assistant","content":"b"}])"),
            R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})");
  EXPECT_EQ(chat_of(R"("input":[)" + thought + R"({"type":"function_call_output","output":"a"},
                {"role":"assistant","content":"b"}])"),
            R"({"messages":[{"role":"tool","tool_call_id":"","content":"a"},)"
            R"({"role":"assistant","content":"b"}]})");
}

TEST(ResponseRequest, ToolsAndForms) {
  EXPECT_EQ(
      chat_of(R"("input":"a","tools":[{"type":"function","name":"f","parameters":{},"strict":true}],
          "tool_choice":{"type":"function","name":"f"},"reasoning":{"effort":"low","summary":"auto"},
          "text":{"format":{"type":"json_schema","name":"x","schema":{"const":1}},"verbosity":"low"})"),
      R"({"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f",)"
      R"("parameters":{},"strict":true}}],"tool_choice":{"type":"function","function":{"name":"f"}},)"
      R"("verbosity":"low","response_format":{"type":"json_schema","json_schema":{"type":"json_schema",)"
      R"("name":"x","schema":{"const":1}}},"reasoning_effort":"low"})");
  EXPECT_EQ(
      chat_of(
          R"("input":"a","text":{"format":{"type":"text"}},"tool_choice":{"type":"allowed_tools",
          "mode":"required","tools":[{"type":"function","name":"f"}]})"),
      R"({"messages":[{"role":"user","content":"a"}],"tool_choice":{"type":"allowed_tools","allowed_tools":)"
      R"({"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}},)"
      R"("response_format":{"type":"text"}})");
}

TEST(ResponseRequest, WhatIsRepeated) {
  EXPECT_EQ(
      read_response_request(R"({"input":"a","temperature":0.5,"metadata":{"a":"b"}})").told,
      R"("instructions":null,"max_output_tokens":null,"metadata":{"a":"b"},)"
      R"("parallel_tool_calls":true,"reasoning":{"effort":null,"summary":null},)"
      R"("temperature":0.5,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],)"
      R"("top_p":1,"truncation":"disabled","user":null,)");
}

TEST(ResponseRequest, IsRefused) {
  EXPECT_EQ(refusal(""), "input: is required");
  EXPECT_EQ(refusal(R"("input":3)"), "input: expected a text or a list of items");
  EXPECT_EQ(refusal(R"("input":[{"type":"computer_call"}])"),
            "input: expected items of the types message, function_call, function_call_output and "
            "reasoning, not \"computer_call\"");
  for (const char* const members :
       {R"("input":[{"role":"user"}])", R"("input":[{"content":"a"}])",
        R"("input":[{"type":"message","role":"","content":"a"}])", R"("input":[3])",
        R"("input":[{"role":"user","content":[{"type":"input_file"}]}])",
        R"("input":[{"type":"function_call","name":"f"}])",
        R"("input":"a","tools":[{"type":"web_search"}])", R"("input":"a","tools":3)",
        R"("input":"a","tool_choice":{"type":"file_search"})", R"("input":"a","text":3)",
        R"("input":"a","reasoning":3)", R"("input":"a","max_output_tokens":0)",
        R"("input":"a","previous_response_id":"resp_1")", R"("input":"a","background":true)",
        R"("input":"a","messages":[])", R"("input":"a","prompt_logprobs":1)",
        R"("input":"a","include":"x")", R"("input":"a","include":[1])",
        R"("input":"a","include":["message.output_text.logprobs"])"})
    EXPECT_NE(refusal(members).find(": "), std::string::npos) << members;
  EXPECT_EQ(refusal(R"("input":"a","previous_response_id":"x")"),
            "previous_response_id: no conversation is kept; input takes all of it");
}

}  // namespace
}  // namespace mt
