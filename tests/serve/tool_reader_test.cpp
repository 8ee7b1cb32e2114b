#include "serve/tool_reader.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"

namespace mt {
namespace {

// What is said, in one go and byte by byte: "text|name(arguments)|...".
std::string said(std::string_view text, ToolForm form, bool in_bytes) {
  ToolReader reader(form, {{"f", R"({"properties":{"n":{"type":"integer"},"s":{"type":"string"},
                                                   "l":{"type":["array","null"]}}})"}});
  std::string shown, calls;
  const auto add = [&](const ToolReader::Said& part) {
    shown += part.text;
    for (const ToolCall& call : part.calls) calls += concat("|", call.name, call.arguments);
  };
  for (std::size_t i = 0; in_bytes && i < text.size(); ++i)
    add(reader.take(text.substr(i, 1), false));
  add(reader.take(in_bytes ? "" : text, true));
  return shown + calls;
}

void expect_said(std::string_view text, ToolForm form, std::string_view expected) {
  for (const bool in_bytes : {false, true})
    EXPECT_EQ(said(text, form, in_bytes), expected) << text << (in_bytes ? ", in bytes" : "");
}

TEST(Tools, CallsOfHermes) {
  constexpr ToolForm kForm = ToolForm::hermes;
  expect_said("Plain <b> text \n", kForm, "Plain <b> text \n");
  expect_said("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, 2]}}\n</tool_call>", kForm,
              "|f{\"a\":[1,2]}");
  expect_said(
      " Well:\n\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n"
      "<tool_call>{\"name\":\"g\",\"arguments\":{\"x\":\"</b>\"}}</tool_call>\n",
      kForm, " Well:|f{}|g{\"x\":\"</b>\"}");
  expect_said("<tool_call>{\"name\":\"f\",\"arguments\":{}}", kForm, "|f{}");  // cut at its end
  expect_said("<tool_call>{\"name\":}</tool_call> and", kForm,
              "<tool_call>{\"name\":}</tool_call> and");
  expect_said("<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> x ", kForm, " x|f{}");
  expect_said("<tool_call", kForm, "<tool_call");
  // The mark in a text of a call ends none, but where the object does not end either.
  expect_said(R"(<tool_call>{"name":"f","arguments":{"x":"{\"</tool_call>"}}</tool_call> and)",
              kForm, R"( and|f{"x":"{\"</tool_call>"})");
  expect_said(R"(<tool_call>{"name":"f","arguments":{"x":"</tool_call>"}})", kForm,
              R"(|f{"x":"</tool_call>"})");
  expect_said(R"(<tool_call>{"name":"f</tool_call> and <tool_call>{"name":"f","arguments":{}})",
              kForm, R"(<tool_call>{"name":"f</tool_call> and|f{})");
}

TEST(Tools, CallsOfLlama3) {
  constexpr ToolForm kForm = ToolForm::llama3;
  expect_said("Plain {text}", kForm, "Plain {text}");
  expect_said("{\"name\": \"f\", \"parameters\": {\"a\": \";\"}}", kForm, "|f{\"a\":\";\"}");
  expect_said(
      "<|python_tag|>{\"name\":\"f\",\"parameters\":{}}; {\"name\":\"g\",\"parameters\":{}}", kForm,
      "|f{}|g{}");
  expect_said(R"({"name":"f","parameters":{"a":"\\\"};{"}} ; {"name":"g","parameters":{}};)", kForm,
              R"(|f{"a":"\\\"};{"}|g{})");
  expect_said(R"({"name":"f","parameters":{}} and)", kForm, R"({"name":"f","parameters":{}} and)");
  expect_said("{\"name\": \"f\"}", kForm, "{\"name\": \"f\"}");
  expect_said("{\"name\":\"f\",\"parameters\":{}}; and", kForm,
              "{\"name\":\"f\",\"parameters\":{}}; and");
}

TEST(Tools, CallsOfMistral) {
  for (const ToolForm form : {ToolForm::mistral, ToolForm::mistral_args}) {
    expect_said(
        R"(Well. [TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}, {"name":"g","arguments":{}}])",
        form, R"(Well.|f{"a":1}|g{})");
    expect_said(R"([TOOL_CALLS] f[ARGS]{"a": "]"}[TOOL_CALLS]g[CALL_ID]123456789[ARGS]{})", form,
                R"(|f{"a":"]"}|g{})");
    expect_said(R"([TOOL_CALLS][{"name": "f"}])", form, R"([TOOL_CALLS][{"name": "f"}])");
    expect_said(R"([TOOL_CALLS]f[ARGS]{"a": "[TOOL_CALLS]"}[TOOL_CALLS]g[ARGS]{})", form,
                R"(|f{"a":"[TOOL_CALLS]"}|g{})");
    expect_said("a [TOOL", form, "a [TOOL");
  }
}

TEST(Tools, CallsOfDeepSeek) {
  for (const ToolForm form : {ToolForm::deepseek, ToolForm::deepseek_bare}) {
    expect_said(
        "One\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"
        "\"a\": 1}\n"
        "```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n"
        "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        form, "One|f{\"a\":1}|g{}");
    expect_said(
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":[]}<｜tool▁call▁end｜>",
        form, "|f{\"a\":[]}");
    expect_said(
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":\"<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        form, "|f{\"a\":\"<｜tool▁call▁end｜><｜tool▁calls▁end｜>\"}");
    expect_said("<｜tool▁calls▁begin｜>f<｜tool▁calls▁end｜>", form,
                "<｜tool▁calls▁begin｜>f<｜tool▁calls▁end｜>");
  }
}

// A value is a text unless its parameter has another type, and is of it.
TEST(Tools, CallsWithoutJson) {
  expect_said(
      "So\n<tool_call>\n<function=f>\n<parameter=s>\n12\n</parameter>\n<parameter=n>\n12\n"
      "</parameter>\n<parameter=l>\n[1, "
      "\"a\"]\n</parameter>\n<parameter=x>\ntrue\nx\n</parameter>\n"
      "</function>\n</tool_call>",
      ToolForm::qwen_coder, R"(So|f{"s":"12","n":12,"l":[1,"a"],"x":"true\nx"})");
  expect_said("<tool_call>\n<function=f>\n</function>\n</tool_call>", ToolForm::qwen_coder, "|f{}");
  expect_said("<tool_call>f</tool_call>", ToolForm::qwen_coder, "<tool_call>f</tool_call>");
  expect_said(
      "<tool_call>f\n<arg_key>n</arg_key>\n<arg_value>many</arg_value>\n<arg_key>s</arg_key>\n"
      "<arg_value>\n</arg_value>\n</tool_call>\n<tool_call>g\n</tool_call>",
      ToolForm::glm, R"(|f{"n":"many","s":"\n"}|g{})");
  expect_said("<tool_call>f\n<arg_key>n</tool_call>", ToolForm::glm,
              "<tool_call>f\n<arg_key>n</tool_call>");
}

TEST(Tools, FormsOfTemplates) {
  EXPECT_EQ(tool_form_of("x <tool_call> y"), ToolForm::hermes);
  EXPECT_EQ(tool_form_of("<tool_call>\n<function=f>"), ToolForm::qwen_coder);
  EXPECT_EQ(tool_form_of("<|start_header_id|> '\"parameters\": '"), ToolForm::llama3);
  EXPECT_EQ(tool_form_of("{{ messages }}"), std::nullopt);
  const std::vector<std::pair<const char*, ToolForm>> published = {
      {"deepseekv3", ToolForm::deepseek},
      {"glm4moe", ToolForm::glm},
      {"nemotron_3_nano", ToolForm::qwen_coder},
      {"qwen2_5", ToolForm::hermes},
      {"qwen3", ToolForm::hermes}};
  for (const auto& [name, form] : published)
    EXPECT_EQ(tool_form_of(read_file(concat(MT_TESTDATA "/trl/masks/", name, ".jinja"))), form)
        << name;
}

}  // namespace
}  // namespace mt
