#include <gtest/gtest.h>

#include "base/error.h"
#include "infer/chat_prompts.h"
#include "infer/grammar_cache.h"
#include "infer/prompt_reader.h"
#include "text/tokenizer.h"

namespace mt {
namespace {

const Tokenizer& tokens() {
  static const auto tokenizer = make_tokenizer({.type = "NullTokenizer", .vocab_size = 10});
  return *tokenizer;
}

const ChatPrompts& chats() {
  static const ChatPrompts chats(
      tokens(),
      {{"chat_template.jinja",
        [] {
          return "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}"
                 "{{ 'a:' if add_generation_prompt }}{{ style }}";
        }},
       {"additional_chat_templates/tool_use.jinja", [] { return "{{ tools | tojson }}"; }}},
      "F", {.chat_template = "", .kwargs = R"({"style":"!"})"});
  return chats;
}

GrammarCache& grammars() {
  static const CompletionModel model{.tokenizer = tokens(), .vocab_size = 10};
  static GrammarCache grammars(model);
  return grammars;
}

Prompt parse(std::string_view line, const Prompt& defaults = {}) {
  return prompt_of_json(line, defaults, chats(), grammars());
}

std::string wrong(std::string_view line) {
  Prompt defaults;
  defaults.place = "stdin:3";
  try {
    prompt_of_json(line, defaults, chats(), grammars());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_data);
    return error.what();
  }
  return "";
}

TEST(PromptOfJson, MembersThatAreMeantOtherwise) {
  EXPECT_EQ(meant_member("max_tokens"), "num_tokens");
  EXPECT_EQ(meant_member("max_new_tokens"), "num_tokens");
  EXPECT_EQ(meant_member("ignore_eos"), "ignore_eod");
  EXPECT_EQ(meant_member("temprature"), "temperature");
  EXPECT_EQ(meant_member("topp"), "top_p");
  for (const char* const other :
       {"id", "url", "title", "label", "answer", "source", "lang", "meta"})
    EXPECT_EQ(meant_member(other), "") << other;
}

TEST(PromptOfJson, Options) {
  Prompt defaults;
  defaults.options.num_tokens = 7;
  defaults.options.sampling = {{.temperature = 0.5, .top_k = 3, .top_p = 0.9, .seed = 1}};
  const Prompt plain = parse(R"({"prompt":"a\u00e9\n"})", defaults);
  EXPECT_EQ(plain.text, "a\xC3\xA9\n");
  EXPECT_EQ(plain.options.num_tokens, 7);
  EXPECT_EQ(plain.options.sampling.top_k, 3);
  EXPECT_EQ(plain.num_samples, 1);
  EXPECT_FALSE(plain.options.logprobs);

  const Prompt all = parse(
      R"({"num_tokens":1,"stop":"x","stop_tokens":[4,5],"ignore_eod":true,"logprobs":0,"prompt":"",)"
      R"("temperature":2,"top_k":0,"top_p":0.25,"seed":99,"num_samples":4})",
      defaults);
  EXPECT_EQ(all.text, "");
  EXPECT_EQ(all.options.num_tokens, 1);
  EXPECT_EQ(all.options.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(all.options.stop_tokens, (std::vector<std::int64_t>{4, 5}));
  EXPECT_TRUE(all.options.ignore_eod);
  EXPECT_EQ(all.options.logprobs, 0);
  EXPECT_EQ(all.options.sampling.temperature, 2);
  EXPECT_EQ(all.options.sampling.top_k, 0);
  EXPECT_EQ(all.options.sampling.top_p, 0.25);
  EXPECT_EQ(all.options.sampling.seed, 99U);
  EXPECT_EQ(all.num_samples, 4);
  EXPECT_TRUE(all.others.empty());
}

TEST(PromptOfJson, RulesOfLogits) {
  const Prompt prompt = parse(
      R"({"prompt":"","stop":["x","yz"],"min_p":0.5,"min_tokens":3,"repetition_penalty":1.25,)"
      R"("frequency_penalty":-2,"presence_penalty":2,"logit_bias":{"7":-100,"3":0.5},)"
      R"("json_schema":{"enum":["a"]}})");
  const CompletionOptions& o = prompt.options;
  EXPECT_EQ(o.stop, (std::vector<std::string>{"x", "yz"}));
  EXPECT_EQ(o.rules.min_p, 0.5);
  EXPECT_EQ(o.rules.min_tokens, 3);
  EXPECT_EQ(o.rules.repetition_penalty, 1.25);
  EXPECT_EQ(o.rules.frequency_penalty, -2);
  EXPECT_EQ(o.rules.presence_penalty, 2);
  EXPECT_EQ(o.rules.bias, (std::map<std::int32_t, double>{
                              {3, 0.5}, {7, -std::numeric_limits<double>::infinity()}}));
  EXPECT_EQ(o.grammar, parse(R"({"prompt":"b","json_schema":{"enum": ["a"]}})").options.grammar);
  EXPECT_NE(o.grammar, nullptr);
  EXPECT_TRUE(prompt.others.empty());
}

TEST(PromptOfJson, OtherMembersPass) {
  const Prompt prompt =
      parse(R"({"id":7, "a b":{"x":[1, null, true]}, "prompt":"p", "s":"\n\"é"})");
  ASSERT_EQ(prompt.others.size(), 3U);
  EXPECT_EQ(prompt.others[0], std::pair(std::string("id"), std::string("7")));
  EXPECT_EQ(prompt.others[1].second, R"({"x":[1,null,true]})");
  EXPECT_EQ(prompt.others[2].second, R"("\n\"é")");
}

TEST(PromptOfJson, WhatIsWrongIsNamed) {
  EXPECT_TRUE(wrong(R"({"prompt":"","text":"a"})")
                  .starts_with("stdin:3: \"text\" is a member of the result"));
  EXPECT_EQ(wrong(R"({"prompt":"","images":["a.png"]})"),
            "stdin:3: \"images\": the model reads none");
  EXPECT_EQ(wrong(R"({"id":1})"), "stdin:3: no key \"prompt\" or \"messages\"");
  EXPECT_EQ(wrong(R"({"prompt":1})"), "stdin:3: \"prompt\": expected a string");
  EXPECT_EQ(wrong("[1]"), "stdin:3: not a JSON object");
  EXPECT_EQ(wrong(R"({"prompt":"a)"), "stdin:3: malformed JSON");
  EXPECT_EQ(wrong(""), "stdin:3: empty line, expected a JSON object");
  EXPECT_EQ(wrong(R"({"prompt":"a"} x)"), "stdin:3: malformed JSON");
  const std::pair<const char*, const char*> cases[] = {
      {R"("temperature":-1)", "\"temperature\": expected a number, at least 0"},
      {R"("temperature":"hot")", "\"temperature\": expected a number, at least 0"},
      {R"("top_p":1.5)", "\"top_p\": expected a number, from 0 to 1"},
      {R"("top_k":0.5)", "\"top_k\": expected an integer, at least 0"},
      {R"("num_tokens":-1)", "\"num_tokens\": expected an integer, at least 0"},
      {R"("num_samples":0)", "\"num_samples\": expected an integer, at least 1"},
      {R"("logprobs":true)", "\"logprobs\": expected an integer, at least 0"},
      {R"("stop":5)", "\"stop\": expected a string"},
      {R"("stop":[5])", "\"stop\": expected a string"},
      {R"("min_p":2)", "\"min_p\": expected a number, from 0 to 1"},
      {R"("repetition_penalty":0)", "\"repetition_penalty\": expected a number, from 0.01 to 100"},
      {R"("logit_bias":{"x":1})",
       "\"logit_bias\": expected an object of tokens' numbers, each with a number from -100 to "
       "100"},
      {R"("logit_bias":{"1":101})",
       "\"logit_bias\": expected an object of tokens' numbers, each with a number from -100 to "
       "100"},
      {R"("json_schema":{"type":"word"})", "\"json_schema\": "},
      {R"("stop_tokens":5)", "\"stop_tokens\": expected a list of integers"},
      {R"("ignore_eod":1)", "\"ignore_eod\": expected true or false"}};
  for (const auto& [member, expected] : cases)
    EXPECT_TRUE(
        wrong(concat(R"({"prompt":"a",)", member, "}")).starts_with(concat("stdin:3: ", expected)))
        << member;
}

TEST(PromptOfJson, ConversationsBecomeTextsByTheModelsTemplate) {
  const Prompt prompt =
      parse(R"({"messages":[{"role":"human","content":"x"}],"id":1,"num_tokens":3})");
  EXPECT_EQ(prompt.text, "[user:x]a:!");
  EXPECT_TRUE(prompt.options.has_own_tokens);
  EXPECT_EQ(prompt.options.num_tokens, 3);
  ASSERT_EQ(prompt.others.size(), 1U);
  EXPECT_EQ(prompt.others[0].first, "id");
  EXPECT_FALSE(parse(R"({"prompt":"x"})").options.has_own_tokens);
  EXPECT_EQ(parse(R"({"messages":[],"chat_template_kwargs":{"style":"?"}})").text, "a:?");
  EXPECT_EQ(parse(R"({"messages":[],"tools":[{"name":"f"}]})").text, R"([{"name": "f"}])");
  EXPECT_EQ(wrong(R"({"messages":[],"prompt":"x"})"), "stdin:3: both \"prompt\" and \"messages\"");
  EXPECT_EQ(wrong(R"({"messages":7})"), "stdin:3: \"messages\": expected a list");
  EXPECT_EQ(wrong(R"({"messages":[{"role":"user"},{}]})"), "stdin:3: message 2: no \"role\"");
  EXPECT_EQ(wrong(R"({"messages":[],"tools":{}})"), "stdin:3: \"tools\": expected a list");
  EXPECT_EQ(wrong(R"({"messages":[],"chat_template_kwargs":1})"),
            "stdin:3: \"chat_template_kwargs\": expected an object");
}

}  // namespace
}  // namespace mt
