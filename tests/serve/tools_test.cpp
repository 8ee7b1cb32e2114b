#include "serve/tools.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt {
namespace {

// What is said, in one go and byte by byte: "text|name(arguments)|...".
std::string said(std::string_view text, ToolForm form, bool in_bytes) {
  ToolReader reader(form);
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
}

TEST(Tools, CallsOfLlama3) {
  constexpr ToolForm kForm = ToolForm::llama3;
  expect_said("Plain {text}", kForm, "Plain {text}");
  expect_said("{\"name\": \"f\", \"parameters\": {\"a\": \";\"}}", kForm, "|f{\"a\":\";\"}");
  expect_said(
      "<|python_tag|>{\"name\":\"f\",\"parameters\":{}}; {\"name\":\"g\",\"parameters\":{}}", kForm,
      "|f{}|g{}");
  expect_said("{\"name\": \"f\"}", kForm, "{\"name\": \"f\"}");
  expect_said("{\"name\":\"f\",\"parameters\":{}}; and", kForm,
              "{\"name\":\"f\",\"parameters\":{}}; and");
}

TEST(Tools, FormsOfTemplates) {
  EXPECT_EQ(tool_form_of("x <tool_call> y"), ToolForm::hermes);
  EXPECT_EQ(tool_form_of("<tool_call>\n<function=f>"), std::nullopt);
  EXPECT_EQ(tool_form_of("<|start_header_id|> '\"parameters\": '"), ToolForm::llama3);
  EXPECT_EQ(tool_form_of("{{ messages }}"), std::nullopt);
}

Tools read(const std::string& json) {
  RequestFields fields(json);
  return read_tools(fields);
}
std::string refusal(const std::string& json) {
  try {
    read(json);
  } catch (const ApiError& error) {
    return error.param;
  }
  return "";
}

TEST(Tools, Requests) {
  const std::string f = R"("tools":[{"type":"function","function":{"name":"f","parameters":
      {"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],
       "additionalProperties":false}}},{"type":"function","function":{"name":"g"}}])";
  EXPECT_FALSE(read("{}").may_call);
  EXPECT_TRUE(read("{" + f + "}").may_call);
  EXPECT_TRUE(read("{" + f + "}").must_call.empty());
  EXPECT_FALSE(read("{" + f + R"(,"tool_choice":"none"})").may_call);
  EXPECT_EQ(read("{" + f + R"(,"tool_choice":"required"})").must_call.size(), 2U);
  EXPECT_EQ(
      read("{" + f + R"(,"tool_choice":{"type":"function","function":{"name":"g"}}})").must_call,
      std::vector<std::string>{"g"});
  EXPECT_EQ(refusal(R"({"tools":[1]})"), "tools");
  EXPECT_EQ(refusal(R"({"tools":{}})"), "tools");
  EXPECT_EQ(refusal(R"({"tool_choice":"required"})"), "tool_choice");
  EXPECT_EQ(refusal("{" + f + R"(,"tool_choice":"f"})"), "tool_choice");
  EXPECT_EQ(refusal("{" + f + R"(,"tool_choice":{"function":{"name":"h"}}})"), "tool_choice");
  EXPECT_EQ(refusal("{" + f + R"(,"parallel_tool_calls":1})"), "parallel_tool_calls");
}

bool fits(const ByteGrammar& grammar, std::string_view text) {
  GrammarText at(grammar);
  GrammarText::Places places = at.at_beginning();
  for (const char c : text) places = at.behind(places, static_cast<std::uint8_t>(c));
  return places.whole;
}

TEST(Tools, CallsThatMustBe) {
  Tools tools;
  tools.functions = {{"f", R"({"type":"object","properties":{"a":{"type":"integer"}},
                               "required":["a"],"additionalProperties":false})"},
                     {"g", R"({"type":"object"})"}};
  tools.must_call = {"f"};
  tools.several = false;
  const ByteGrammar one = grammar_of_calls(tools, ToolForm::hermes);
  const std::string call =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  EXPECT_TRUE(fits(one, call));
  EXPECT_FALSE(fits(one, call + "\n" + call));
  EXPECT_FALSE(fits(one, "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"));
  tools.several = true;
  EXPECT_TRUE(fits(grammar_of_calls(tools, ToolForm::hermes), call + "\n" + call));
  tools.must_call = {"f", "g"};
  EXPECT_TRUE(
      fits(grammar_of_calls(tools, ToolForm::llama3),
           "{\"name\": \"g\", \"parameters\": {}}; {\"name\": \"f\", \"parameters\": {\"a\":2}}"));
  tools.functions[0].second = R"({"not":{}})";
  EXPECT_THROW(grammar_of_calls(tools, ToolForm::hermes), Error);
}

}  // namespace
}  // namespace mt
