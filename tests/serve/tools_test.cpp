#include "serve/tools.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt {
namespace {

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
  const auto allowed = [&](const char* what) {
    return "{" + f + R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":)" + what + "}}";
  };
  EXPECT_EQ(
      read(allowed(R"({"mode":"required","tools":[{"type":"function","function":{"name":"g"}}]})"))
          .must_call,
      std::vector<std::string>{"g"});
  EXPECT_EQ(refusal(allowed(R"({"mode":"auto","tools":[{"function":{"name":"g"}}]})")),
            "tool_choice");
  EXPECT_EQ(refusal(allowed(R"({"mode":"required","tools":[]})")), "tool_choice");
}

TEST(Tools, AreCalledWithObjects) {
  const auto parameters = [](const std::string& given) {
    return read(R"({"tools":[{"function":{"name":"f")" + given + "}}]}").functions[0].second;
  };
  EXPECT_EQ(parameters(""), R"({"type":"object"})");
  for (const char* const any : {"null", "true", "{}"})
    EXPECT_EQ(parameters(R"(,"parameters":)" + std::string(any)), R"({"type":"object"})") << any;
  EXPECT_EQ(parameters(R"(,"parameters":{"properties":{"a":{}}})"),
            R"({"type":"object","properties":{"a":{}}})");
  EXPECT_EQ(parameters(R"(,"parameters":{"type":["null","object"],"required":["a"]})"),
            R"({"type":"object","required":["a"]})");
  for (const char* const kept :
       {R"({"type":"string"})", R"({"type":["string","null"]})", R"({"$ref":"#/$defs/a"})",
        R"({"anyOf":[{"type":"object"}]})", "5"})
    EXPECT_EQ(parameters(R"(,"parameters":)" + std::string(kept)), kept);
  const auto takes = [](const std::string& schema) {
    const Tools tools{.functions = {{"f", schema}}, .must_call = {"f"}};
    try {
      grammar_of_calls(tools, ToolForm::hermes);
      return true;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "f: expected parameters whose type is object") << schema;
      return false;
    }
  };
  for (const char* const good :
       {R"({"enum":[{"a":1}]})", R"({"const":{"a":1}})",
        R"({"anyOf":[{"$ref":"#/$defs/a"},{"type":"object"}],"$defs":{"a":{"type":"object"}}})"})
    EXPECT_TRUE(takes(good)) << good;
  for (const char* const bad :
       {R"({"type":"string"})", R"({"type":["object","null"]})", R"({"enum":[{"a":1},5]})",
        R"({"const":null})", R"({"anyOf":[{"type":"object"},{"type":"null"}]})",
        R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"integer"}}})", R"({"$ref":"#"})",
        R"({"$ref":"#/$defs/b"})", "{}", "5"})
    EXPECT_FALSE(takes(bad)) << bad;
  // Each leads to the next twice, which is two to the 30th ways.
  std::string many = R"({"$ref":"#/$defs/0","$defs":{)";
  for (int i = 0; i < 30; ++i) {
    const std::string next = concat(R"({"$ref":"#/$defs/)", i + 1, R"("})");
    many += concat("\"", i, R"(":{"anyOf":[)", next, ",", next, "]},");
  }
  EXPECT_TRUE(takes(many + R"("30":{"type":"object"}}})"));
  EXPECT_FALSE(takes(many + R"("30":{"type":"null"}}})"));
}

// Each form writes a name as it is, or in quotes.
TEST(Tools, HaveNamesThatAnyFormCanSay) {
  const auto tool = [](const char* name) {
    return R"({"tools":[{"function":{"name":")" + std::string(name) + R"("}}]})";
  };
  for (const char* const good : {"f", "a.b:c/d-e_1", "é", "天気"})
    EXPECT_EQ(read(tool(good)).functions[0].first, good);
  for (const char* const bad : {"", "a b", R"(a\nb)", R"(a\"b)", R"(a\\b)", "</tool_call>", "{a",
                                "a]", R"(\u007f)", R"(\u0000)"})
    EXPECT_EQ(refusal(tool(bad)), "tools") << bad;
}

TEST(Tools, AreAtMost128) {
  std::string tools = R"({"type":"function","function":{"name":"f"}})";
  const std::string one = tools;
  for (int i = 1; i < 128; ++i) tools += "," + one;
  EXPECT_EQ(read(R"({"tools":[)" + tools + "]}").functions.size(), 128U);
  EXPECT_EQ(refusal(R"({"tools":[)" + tools + "," + one + "]}"), "tools");
  EXPECT_EQ(refusal(R"({"tools":[)" + one +
                    R"(],"tool_choice":{"type":"allowed_tools",)"
                    R"("allowed_tools":{"mode":"required","tools":[)" +
                    tools + "," + one + "]}}}"),
            "tool_choice");
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
  tools.must_call = {"f"};
  const std::vector<std::pair<ToolForm, std::string>> forms = {
      {ToolForm::mistral, R"([TOOL_CALLS][{"name": "f", "arguments": {"a":1}}])"},
      {ToolForm::mistral_args, R"([TOOL_CALLS]f[ARGS]{"a":1})"},
      {ToolForm::deepseek,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
       "{\"a\":1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {ToolForm::deepseek_bare,
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":1}<｜tool▁call▁end｜>"
       "<｜tool▁calls▁end｜>"},
      {ToolForm::channels,
       R"(<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a":1})"}};
  for (const auto& [form, text] : forms) {
    EXPECT_TRUE(fits(grammar_of_calls(tools, form), text)) << text;
    if (form == ToolForm::channels) continue;
    const auto read = ToolReader(form).take(text, true);  // and read so
    ASSERT_EQ(read.calls.size(), 1U) << text;
    EXPECT_EQ(read.calls[0].name + read.calls[0].arguments, "f{\"a\":1}");
  }
  tools.functions[0].second = R"({"not":{}})";
  EXPECT_THROW(grammar_of_calls(tools, ToolForm::hermes), Error);
  // A mark would end gpt-oss's call in a text, too.
  tools.must_call = {"g"};
  const std::string begun =
      R"(<|channel|>commentary to=functions.g <|constrain|>json<|message|>{"b":")";
  const ByteGrammar channels = grammar_of_calls(tools, ToolForm::channels);
  EXPECT_TRUE(fits(channels, begun + "\\u003c|end|>\"}"));
  EXPECT_FALSE(fits(channels, begun + "<|end|>\"}"));
}

// What Qwen3-Coder's and GLM's templates show a model of calls, whose arguments stand between
// marks.
TEST(Tools, CallsWhoseArgumentsAreMarked) {
  Tools tools;
  tools.functions = {
      {"f", R"({"type":"object","properties":{"text":{"type":"string","description":"any"},
                "unit":{"type":"string","enum":["C","F"]},"n":{"type":"integer"},
                "list":{"type":"array","items":{"$ref":"#/$defs/one"}},
                "notes":{"type":"array","items":{"type":"string"}},
                "tag":{"const":["<b>"]},"others":{"type":"array","items":{"$ref":"#"}}},
                "required":["text","n"],"$defs":{"one":{"type":"boolean"}}})"}};
  tools.must_call = {"f"};
  const auto qwen = [](const std::vector<std::pair<std::string, std::string>>& given) {
    std::string text = "<tool_call>\n<function=f>\n";
    for (const auto& [name, value] : given)
      text += "<parameter=" + name + ">\n" + value + "\n</parameter>\n";
    return text + "</function>\n</tool_call>";
  };
  const auto glm = [](const std::vector<std::pair<std::string, std::string>>& given) {
    std::string text = "<tool_call>f\n";
    for (const auto& [name, value] : given)
      text += "<arg_key>" + name + "</arg_key>\n<arg_value>" + value + "</arg_value>\n";
    return text + "</tool_call>";
  };
  const std::vector<std::vector<std::pair<std::string, std::string>>> good = {
      {{"text", "if (a < b) {\n  \"</param>\"\n}"}, {"n", "3"}},
      {{"text", ""}, {"n", "-1"}},
      {{"text", "<<</para\n\n</parametex ü → 😀"}, {"unit", "F"}, {"n", "0"}},
      {{"text", "</arg_val <</arg_"}, {"n", "1"}, {"list", "[true, false]"}},
      {{"text", "<tool_call></tool_cal</</tool_x>"},
       {"n", "1"},
       {"notes", R"(["a\u003c/tool_call>"])"}},
      {{"text", "a"}, {"n", "1"}, {"tag", R"(["\u003cb>"])"}},
      {{"text", "a"}, {"n", "1"}, {"others", R"([{"text":"b","n":2}])"}}};
  const std::vector<std::vector<std::pair<std::string, std::string>>> bad = {
      {{"text", "a"}},
      {{"n", "3"}},
      {{"n", "3"}, {"text", "a"}},
      {{"text", "a"}, {"unit", "K"}, {"n", "3"}},
      {{"text", "a"}, {"n", "3.5"}},
      {{"text", "a"}, {"n", "3"}, {"list", "[1]"}},
      {{"text", "a"}, {"n", "3"}, {"other", "1"}},
      {{"text", "a\nb</parameter>c</arg_value>d"}, {"n", "3"}},
      {{"text", "a</tool_call>b"}, {"n", "3"}},
      {{"text", "a\n</tool_call>"}, {"n", "3"}},
      {{"text", "a"}, {"n", "3"}, {"notes", R"(["a</tool_call>"])"}},
      {{"text", "a"}, {"n", "3"}, {"notes", R"(["</parameter></arg_value>"])"}},
      {{"text", "a"}, {"n", "3"}, {"tag", R"(["<b>"])"}},
      {{"text", "\x01"}, {"n", "3"}}};
  for (const ToolForm form : {ToolForm::qwen_coder, ToolForm::glm}) {
    const auto write = [&](const auto& given) {
      return form == ToolForm::glm ? glm(given) : qwen(given);
    };
    tools.several = false;
    const ByteGrammar one = grammar_of_calls(tools, form);
    for (const auto& given : good) {
      EXPECT_TRUE(fits(one, write(given))) << write(given);
      EXPECT_FALSE(fits(one, write(given) + "\n" + write(given)));
      const auto read = ToolReader(form, tools.functions).take(write(given), true);
      ASSERT_EQ(read.calls.size(), 1U) << write(given);
      simdjson::dom::parser parser;
      std::string_view text;
      ASSERT_EQ(parser.parse(read.calls[0].arguments)["text"].get(text), simdjson::SUCCESS);
      EXPECT_EQ(text, given[0].second);
    }
    for (const auto& given : bad) EXPECT_FALSE(fits(one, write(given))) << write(given);
    tools.several = true;
    const ByteGrammar several = grammar_of_calls(tools, form);
    EXPECT_TRUE(fits(several, write(good[0]) + "\n" + write(good[1])));
    for (
        const char* const schema :
        {R"({"type":"string"})", R"({"type":"object","properties":{"a>":{}}})",
         R"({"type":"object","properties":{"a":{"type":"string","pattern":"b"}}})",
         R"({"type":"object","properties":{"a":{"type":"string","enum":["</arg_value></parameter>"]}}})",
         R"({"type":"object","properties":{"a":{"type":"string","enum":["</tool_call>"]}}})",
         R"({"type":"object","properties":{"a":{"not":{}}}})"}) {
      Tools wrong = tools;
      wrong.functions[0].second = schema;
      EXPECT_THROW(grammar_of_calls(wrong, form), Error) << schema;
    }
  }
}

}  // namespace
}  // namespace mt
