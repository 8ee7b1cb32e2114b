#include "text/chat/chat_template.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "tests/base/scratch.h"

namespace mt {
namespace {

ChatValue json(std::string_view text) { return chat_value_of_json(text, "test"); }

ChatInput given(const ChatValue& value) {
  ChatInput input{.messages = *value.find("messages"), .kwargs = *value.find("kwargs")};
  for (const auto& [name, token] : *value.find("special_tokens")->pairs())
    input.special_tokens[*name.text()] = *token.text();
  input.clock = [now = *value.find("now")->integer()] { return static_cast<std::time_t>(now); };
  return input;
}

std::string rendered(const std::string& source, const ChatInput& input = {}) {
  return ChatTemplate(source, "t").render(input).text;
}
// The line of an error, whose code is this.
std::string with_code(const std::string& code, const std::string& error) {
  EXPECT_TRUE(error.starts_with(code + " ")) << error;
  return error.substr(std::min(error.size(), code.size() + 1));
}

std::string refusal(const std::string& source) {
  return with_code("78", error_of([&] { ChatTemplate(source, "t"); }));
}
std::string error(const std::string& source, const ChatInput& input = {}) {
  return with_code("65", error_of([&] { rendered(source, input); }));
}

std::string spans_of(const ChatText& text) {
  std::string spans;
  for (const ByteSpan& span : text.generated) spans += concat("[", span.begin, ", ", span.end, "]");
  return spans;
}

std::string spans_of(const ChatValue& generated) {
  std::string spans;
  for (const ChatValue& span : *generated.items())
    spans += concat("[", *(*span.items())[0].integer(), ", ", *(*span.items())[1].integer(), "]");
  return spans;
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace

// testdata/chat-templates.jsonl: every construct, as jinja2 renders it.
TEST(ChatTemplate, RendersWhatJinja2Renders) {
  std::ifstream file(concat(MT_TESTDATA, "/chat-templates.jsonl"));
  std::string line;
  ASSERT_TRUE(std::getline(file, line));
  const ChatValue head = json(line);
  const ChatInput input = given(*head.find("given"));
  int count = 0;
  for (; std::getline(file, line); ++count) {
    const ChatValue golden = json(line);
    const std::string& source = *golden.find("template")->text();
    const ChatValue* const text = golden.find("text");
    if (text == nullptr) {
      const std::string& theirs = *golden.find("error")->text();
      const std::string ours = error_of([&] { rendered(source, input); });
      EXPECT_FALSE(ours.empty()) << source;
      if (theirs.starts_with("TemplateError: ")) {
        EXPECT_EQ(ours, "65 " + theirs.substr(15)) << source;
      }
      continue;
    }
    const ChatText made = ChatTemplate(source, "golden").render(input);
    EXPECT_EQ(made.text, *text->text()) << source;
    EXPECT_EQ(spans_of(made), spans_of(*golden.find("generated"))) << source;
  }
  EXPECT_EQ(count, 118);
}

TEST(ChatTemplate, NamesWhatIsOutsideOfTheSubsetAndWhere) {
  EXPECT_EQ(refusal("a\n  {% include 'x' %}"), "t:2:6: the statement \"include\" is not supported");
  EXPECT_EQ(refusal("{% raw %}{{ x }}{% endraw %}"),
            "t:1:1: the statement \"raw\" is not supported");
  EXPECT_EQ(refusal("{% nonsense %}"), "t:1:4: unknown statement \"nonsense\"");
  EXPECT_EQ(refusal("{{ é|wordwrap }}"), "t:1:4: unexpected 'é'");
  EXPECT_EQ(refusal("ü{{ x|wordwrap(5) }}"), "t:1:7: the filter \"wordwrap\" is not supported");
  EXPECT_EQ(refusal("{{ x is divisibleby 3 }}"),
            "t:1:9: the test \"divisibleby\" is not supported");
  EXPECT_EQ(refusal("{{ x.zfill(3) }}"), "t:1:5: the method \"zfill()\" is not supported");
  EXPECT_EQ(refusal("{{ lipsum() }}"), "t:1:4: the function \"lipsum\" is not supported");
  EXPECT_EQ(refusal("{{ f(*x) }}"), "t:1:6: a call with *arguments is not supported");
  EXPECT_EQ(refusal("{% for x in y recursive %}{% endfor %}"),
            "t:1:15: the loop \"recursive\" is not supported");
  EXPECT_EQ(refusal("{% break %}"), "t:1:4: \"break\" outside of a loop");
  EXPECT_EQ(refusal("{% for x in y %}{% macro f() %}{% break %}{% endmacro %}{% endfor %}"),
            "t:1:35: \"break\" outside of a loop");
}

TEST(ChatTemplate, NamesTheMistakeAndItsPlace) {
  EXPECT_EQ(refusal("{% if x %}"), "t:1:11: expected {% endif %}");
  EXPECT_EQ(refusal("{% for x in y %}{% endif %}"), "t:1:20: unknown statement \"endif\"");
  EXPECT_EQ(refusal("{{ x "), "t:1:1: this tag has no end");
  EXPECT_EQ(refusal("{{ (x }}"), "t:1:7: unexpected '}', expected ')'");
  EXPECT_EQ(refusal("{# x"), "t:1:1: this comment has no end");
  EXPECT_EQ(refusal("{{ 'x }}"), "t:1:4: this string has no end");
  EXPECT_EQ(refusal("{{ }}"), "t:1:4: unexpected end of the tag");
  EXPECT_EQ(refusal("{{ 1 2 }}"), "t:1:6: unexpected number");
  EXPECT_EQ(refusal("{{ 99999999999999999999 }}"), "t:1:4: an integer beyond 64 bits");
  EXPECT_EQ(refusal("{{ '\\ud800' }}"),
            "t:1:5: the escape \"\\u\" needs 4 digits that are a character's");
  EXPECT_EQ(refusal("{% set true = 1 %}"), "t:1:8: 'true' cannot be set");
  EXPECT_EQ(refusal("{{ a \xff }}"), "t:1:6: not UTF-8");
  EXPECT_EQ(refusal("{{ x is string is string }}"), "t:1:16: tests cannot be chained with \"is\"");
}

TEST(ChatTemplate, SaysWhereRenderingFails) {
  EXPECT_EQ(error("a\n {{ none.x.y }}"), "t:2:11: 'NoneType object' has no attribute 'x'");
  EXPECT_EQ(error("{{ f(1) }}"), "t:1:5: 'f' is undefined");
  EXPECT_EQ(error("{% if 1 %}{{ 1 | from_json }}{% endif %}"),
            "t:1:18: the filter \"from_json\" is not supported");
  EXPECT_EQ(error("{% if 1 is from_json %}{% endif %}"),
            "t:1:12: the test \"from_json\" is not supported");
  EXPECT_EQ(error("{{ 1 + 'a' }}"), "t:1:6: unsupported operand type(s) for +: 'int' and 'str'");
  EXPECT_EQ(error("{{ 9223372036854775807 + 1 }}"), "t:1:24: an integer beyond 64 bits");
  EXPECT_EQ(error("{{ raise_exception('Only\n\"two\" roles') }}"), "Only\n\"two\" roles");
}

TEST(ChatTemplate, LimitsWhatATemplateMayDo) {
  EXPECT_EQ(refusal(repeated("x", (1 << 20) + 1)),
            "t:1:1: a template of 1048577 bytes, at most 1048576");
  EXPECT_EQ(refusal("{{ " + repeated("(", 70) + "1" + repeated(")", 70) + " }}"),
            "t:1:67: nested deeper than 64");
  EXPECT_EQ(refusal("{{ 1" + repeated(" + 1", 300) + " }}"),
            "t:1:1002: an expression deeper than 250");
  EXPECT_EQ(error("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}"),
            "t:1:21: macros called in each other more than 64 times");
  EXPECT_EQ(
      error("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
            {.steps = 50'000}),
      "t:1:46: more than 50000 steps");
  EXPECT_EQ(error("{% set ns = namespace(x='0123456789') %}{% for i in range(40) %}"
                  "{% set ns.x = ns.x ~ ns.x %}{% endfor %}"),
            "t:1:84: a text of more than 64 MiB");
  EXPECT_EQ(error("{% set ns = namespace(x=[]) %}{% for i in range(40) %}"
                  "{% set ns.x = [ns.x, ns.x] %}{% endfor %}"),
            "t:1:78: a list or dict of more than 4 Mi values");
  EXPECT_EQ(error("{% set ns = namespace(x=[]) %}{% for i in range(2000) %}"
                  "{% set ns.x = [ns.x] %}{% endfor %}"),
            "t:1:74: lists and dicts nested deeper than 1100");
  EXPECT_EQ(error("{{ 'x' * 99999999999 }}"), "t:1:8: a text of more than 64 MiB");
  EXPECT_EQ(error("{% set x = 'x' * 60000000 %}{{ x }}{{ x }}"),
            "t:1:36: an output of more than 64 MiB");
}

TEST(ChatTemplate, IsNotTroubledByWhatLivesLong) {
  EXPECT_EQ(
      rendered("{% set ns = namespace() %}{% for i in [1, 2] %}{% macro f() %}{{ i }}{% endmacro %}"
               "{% set ns.f = f %}{% set ns.self = ns %}{% set ns.loop = loop %}{% endfor %}"
               "{% set g = ns.f %}{{ g() }}{{ ns.self.loop.length }}"),
      "22");
}

TEST(ChatTemplate, GenerationBlocksInAMacroHaveNoPlace) {
  const ChatText made =
      ChatTemplate("{% macro f() %}{% generation %}x{% endgeneration %}{% endmacro %}a{{ f() }}",
                   "t")
          .render({});
  EXPECT_EQ(made.text, "ax");
  EXPECT_FALSE(made.all_placed);
  EXPECT_TRUE(made.generated.empty());
}

TEST(ChatTemplate, ContinuesTheFinalMessage) {
  const std::string source =
      "{% for m in messages %}<{{ m.content }}>{% endfor %}{% if add_generation_prompt %}!{% endif "
      "%}";
  ChatInput input{.messages = json(R"([{"role":"user","content":"a"},)"
                                   R"({"role":"assistant","content":"b "}])"),
                  .continue_final_message = true};
  EXPECT_EQ(rendered(source, input), "<a><b ");
  EXPECT_EQ(rendered("{% for m in messages %}<{{ m.content.strip() }}>{% endfor %}", input),
            "<a><b");
  EXPECT_EQ(error("{{ messages | length }}", input),
            "t: the final message cannot be continued, because the template changes its content");
  input.messages = json(R"([{"role":"user","content":[{"type":"text","text":"a"}]}])");
  EXPECT_EQ(rendered("<{{ messages[0].content[0].text }}>", input), "<a");
  input.messages = json("[]");
  EXPECT_EQ(error(source, input), "t: the final message has no content to continue");
}

// What transformers makes of them, or, where it shows nothing of texts, vLLM.
TEST(ChatTemplate, ContentsAreTextsUnlessTheTemplateShowsOnlyParts) {
  const auto shown = [](const std::string& source, std::string_view content) {
    const ChatValue message = ChatValue::dict({{"role", "user"}, {"content", json(content)}});
    return rendered(source, {.messages = ChatValue::list({message})});
  };
  const std::string texts =
                        "{{ bos_token }}{% for m in messages %}{{ m.content | trim }}{% endfor %}",
                    parts =
                        "{# image #}{% for m in messages %}{% for c in m['content'] | "
                        "selectattr('type', 'equalto', 'image') %}<image>{% endfor %}{% for c in "
                        "m['content'] | selectattr('type', 'equalto', 'text') %}{{ c['text'] }}"
                        "{% endfor %}{% endfor %}",
                    both =
                        "{%- macro seen(x) %}{% if x is string %}text {{ x }}{% else %}"
                        "{% for c in x %}{{ c.type }} {{ c.text }},{% endfor %}{% endif %}"
                        "{% endmacro %}{% for m in messages %}{{ seen(m.content) }}{% endfor %}";
  const std::string image = R"([{"type":"image"},{"type":"text","text":"a"}])";
  EXPECT_EQ(shown(texts, R"(" a ")"), "a");
  EXPECT_EQ(shown("{# image #}" + texts, R"(" a ")"), "a");
  EXPECT_EQ(shown(parts, R"("a")"), "a");
  EXPECT_EQ(shown(parts, image), "<image>a");
  EXPECT_EQ(shown(both, R"("a")"), "text a");
  EXPECT_EQ(shown(both, image), "image ,text a,");
  EXPECT_EQ(with_code("65", error_of([&] { shown(texts, image); })),
            "t: the template has no place for images");
  EXPECT_EQ(shown("{{ raise_exception('no') if messages | length < 1 }}x", R"("a")"), "x");
  // What is said behind a system message, where the template wants one, and else nothing is known.
  const std::string behind = "{{ raise_exception('no') if messages[0].role != 'system' }}",
                    last = "{{ raise_exception('no') if messages | length < 3 }}";
  const auto shown_behind = [&](const std::string& source, const std::string& content) {
    const std::string system = R"({"role":"system","content":[{"type":"text","text":"s"}]},)";
    const std::string all = concat("[", system, source.starts_with(last) ? system : "",
                                   R"({"role":"user","content":)", content, "}]");
    return rendered(source, {.messages = json(all)});
  };
  EXPECT_EQ(shown_behind(behind + parts, R"("a")"), "sa");
  EXPECT_EQ(shown_behind(behind + parts, image), "s<image>a");
  EXPECT_EQ(with_code("65", error_of([&] { shown_behind(behind + texts, image); })),
            "t: the template has no place for images");
  EXPECT_EQ(shown_behind(last + parts, image), "ss<image>a");
  EXPECT_EQ(shown_behind(last + "{{ messages[2].content }}", R"("a")"), "a");
  ChatInput input{.messages = json(R"([{"role":"assistant","content":"a"}])"),
                  .continue_final_message = true};
  EXPECT_EQ(rendered(parts + "!", input), "a");
}

TEST(ChatMessages, ComeIntoTheFormThatTemplatesWant) {
  const auto normal = [](std::string_view text) {
    return chat_value_json(chat_messages(json(text), "p"));
  };
  EXPECT_EQ(normal(R"([{"role":"human","content":"a","name":null},{"role":"gpt","content":null},)"
                   R"({"role":"ipython","content":[{"type":"text","text":"b"},{"text":"c"}]}])"),
            R"([{"role": "user", "content": "a"}, {"role": "assistant"}, )"
            R"({"role": "tool", "content": "bc"}])");
  EXPECT_EQ(normal(R"([{"role":"assistant","reasoning":"r","tool_calls":[{"function":{"name":"f",)"
                   R"("arguments":"{\"a\": 1}"}},{"name":"g","arguments":"[1"}]}])"),
            R"([{"role": "assistant", "reasoning": "r", "tool_calls": [{"function": {"name": "f", )"
            R"("arguments": {"a": 1}}}, {"name": "g", "arguments": "[1"}], )"
            R"("reasoning_content": "r", "thinking": "r"}])");
  EXPECT_EQ(chat_value_json(chat_messages(
                json(R"([{"role":"user","content":[{"text":"a"},{"image_url":{"url":"x"}},)"
                     R"({"type":"image","image":"y"}]},{"role":"user","content":[{"text":"b"}]}])"),
                "p", true)),
            R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image"}, )"
            R"({"type": "image"}]}, {"role": "user", "content": "b"}])");
  const auto refused = [](std::string_view text, bool images = false) {
    return with_code("65", error_of([&] { chat_messages(json(text), "p", images); }));
  };
  EXPECT_EQ(refused(R"([{"role":"user","content":[{"type":"text","text":"a","image_url":"x"}]}])"),
            "p: message 1: \"content\": a part of the type \"text\" has \"image_url\"; expected a "
            "part of its own");
  EXPECT_EQ(refused(R"([{"role":"user","content":[{"image_url":"x"}]}])"),
            "p: message 1: \"content\": expected parts of the type \"text\", not \"image_url\"");
  EXPECT_EQ(refused(R"([{"role":"user","content":[{"type":"video"}]}])", true),
            "p: message 1: \"content\": expected parts of the type \"text\" or \"image\", not "
            "\"video\"");
  EXPECT_EQ(refused("{}"), "p: \"messages\": expected a list");
  EXPECT_EQ(refused("[1]"), "p: message 1: expected an object");
  EXPECT_EQ(refused(R"([{"role":"user"},{"content":"x"}])"), "p: message 2: no \"role\"");
  EXPECT_EQ(refused(R"([{"role":"user","content":7}])"),
            "p: message 1: \"content\": expected a string or a list of parts");
  EXPECT_EQ(refused(R"([{"role":"user","content":[{"type":"image"}]}])"),
            "p: message 1: \"content\": expected parts of the type \"text\", not \"image\"");
  EXPECT_EQ(refused(R"([{"role":"user","tool_calls":{}}])"),
            "p: message 1: \"tool_calls\": expected a list");
}

TEST(ChatValue, ReadsAndWritesJson) {
  EXPECT_EQ(chat_value_json(json(R"({"b":[1,-2.50,null,true,"é\n\u0001"],"a":{},"b2":1e20})")),
            R"({"b": [1, -2.5, null, true, "é\n\u0001"], "a": {}, "b2": 1e+20})");
  EXPECT_EQ(chat_value_json(json(R"({"a":1,"b":2,"a":3})")), R"({"a": 3, "b": 2})");
  EXPECT_EQ(error_of([] { json("[1,"); }).substr(0, 16), "65 test: byte 3:");
  EXPECT_EQ(chat_value_json(json("[9223372036854775807,9223372036854775808,18446744073709551615]")),
            "[9223372036854775807, 9.223372036854776e+18, 1.8446744073709552e+19]");
  ChatValue shared = json(R"({"a":1})"), copy = shared;
  copy.set("a", 2);
  copy.set("b", "x");
  copy.erase("missing");
  EXPECT_EQ(chat_value_json(shared), R"({"a": 1})");
  EXPECT_EQ(chat_value_json(copy), R"({"a": 2, "b": "x"})");
}

}  // namespace mt
