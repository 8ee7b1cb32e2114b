#include "text/chat/chat_training.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "tests/base/scratch.h"
#include "tests/text/gpt2_files.h"
#include "tests/text/hf_files.h"
#include "text/chat/chat_sources.h"

namespace mt {
namespace {

ChatValue json(std::string_view text) { return chat_value_of_json(text, "test"); }

constexpr const char* kTurns =
    R"([{"role":"user","content":"U1"},{"role":"assistant","content":"A1"},)"
    R"({"role":"user","content":"U2"},{"role":"assistant","content":"A2"}])";

TrainedText trained(const std::string& source, std::string_view messages = kTurns,
                    const ChatTrainOptions& options = {}) {
  return trained_text(
      ChatTemplate(source, "t"),
      {.messages = json(messages), .special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}}},
      options);
}

// The learnt parts, each in brackets.
std::string learnt(const TrainedText& text) {
  std::string parts;
  for (const ByteSpan& span : text.spans)
    parts += concat("[", text.text.substr(span.begin, span.end - span.begin), "]");
  return parts;
}
std::string learnt(const std::string& source, std::string_view messages = kTurns,
                   const ChatTrainOptions& options = {}) {
  return learnt(trained(source, messages, options));
}

std::string family(std::string_view name) { return *builtin_chat(name); }

// A family's template without its generation blocks.
std::string bare(std::string_view name) {
  std::string source = family(name);
  for (const std::string_view tag : {"generation", "endgeneration"})
    for (const char* const minus : {"", "-"})
      for (std::size_t at; (at = source.find(concat("{%", minus, " ", tag, " %}"))) != source.npos;)
        source.replace(at, tag.size() + 6 + std::string_view(minus).size(),
                       *minus != 0 ? "{%- if true %}{% endif %}" : "");
  return source;
}

const std::string kBlocks =
    "{% for m in messages %}{% if m.role=='user' %}<u>{{m.content}}{% else %}<a>{% generation %}"
    "{{m.content}}</a>{% endgeneration %}{% endif %}{% endfor %}";

}  // namespace

TEST(ChatTraining, LearnsWhatGenerationBlocksHold) {
  const TrainedText text = trained(kBlocks);
  EXPECT_EQ(text.text, "<u>U1<a>A1</a><u>U2<a>A2</a>");
  const std::vector<ByteSpan> spans = {{8, 14}, {22, 28}};
  EXPECT_EQ(text.spans, spans);
}

TEST(ChatTraining, LearnsTheLastTurnOrAllTextOrByWeight) {
  EXPECT_EQ(learnt(kBlocks, kTurns, {.train_on = TrainOn::last}), "[A2</a>]");
  EXPECT_EQ(learnt(kBlocks, kTurns, {.train_on = TrainOn::all_text}),
            "[<u>U1<a>A1</a><u>U2<a>A2</a>]");
  constexpr const char* kWeights =
      R"([{"role":"user","content":"U1"},{"role":"assistant","content":"A1","weight":0},)"
      R"({"role":"user","content":"U2"},{"role":"assistant","content":"A2","weight":1}])";
  for (const std::string& source : {kBlocks, bare("chatml"), family("chatml")})
    EXPECT_EQ(learnt(source, kWeights), learnt(source, kTurns, {.train_on = TrainOn::last}));
  EXPECT_EQ(learnt("{{ messages | tojson }}" + kBlocks, kWeights), "[A2</a>]");
  const std::string two =
      "{% for m in messages %}{% if m.role != 'user' %}{% generation %}a{% endgeneration %}-"
      "{% generation %}{{ m.content }}{% endgeneration %}.{% endif %}{% endfor %}";
  EXPECT_EQ(learnt(two), "[a][A1][a][A2]");
  EXPECT_EQ(learnt(two, kWeights), "[a][A2]");
}

// Templates without blocks: what a turn adds beyond the generation prompt, and no blank behind it.
TEST(ChatTraining, FindsTheTurnsOfFamilies) {
  EXPECT_EQ(learnt(bare("chatml")), "[A1<|im_end|>][A2<|im_end|>]");
  EXPECT_EQ(learnt(bare("llama3")), "[A1<|eot_id|>][A2<|eot_id|>]");
  EXPECT_EQ(learnt(bare("phi4")), "[A1<|im_end|>][A2<|im_end|>]");
  EXPECT_EQ(learnt(bare("alpaca")), "[A1</s>][A2</s>]");
  EXPECT_EQ(learnt(bare("gemma")), "[A1<end_of_turn>][A2<end_of_turn>]");
  EXPECT_EQ(learnt(bare("mistral-v1")), "[ A1</s>][ A2</s>]");
  EXPECT_EQ(learnt("{% for m in messages %}{{ m.content }}\n{% endfor %}"), "[A1\n][A2\n]");
}

TEST(ChatTraining, FindsTurnsThatThePrefixesDoNotShow) {
  // The system's text goes into the last turn of the user.
  constexpr const char* kSystem =
      R"([{"role":"system","content":"S"},{"role":"user","content":"U1"},)"
      R"({"role":"assistant","content":"A1"},{"role":"user","content":"U2"},)"
      R"({"role":"assistant","content":"A2"}])";
  EXPECT_EQ(learnt(bare("mistral-v3"), kSystem), "[A1</s>][ A2</s>]");
  // Earlier thoughts are dropped.
  constexpr const char* kThoughts =
      R"([{"role":"user","content":"U1"},)"
      R"({"role":"assistant","content":"<think>\nhm\n</think>\n\nA1"},)"
      R"({"role":"user","content":"U2"},)"
      R"({"role":"assistant","content":"<think>\nso\n</think>\n\nA2"}])";
  EXPECT_EQ(learnt(bare("qwen3"), kThoughts),
            "[A1<|im_end|>][<think>\nso\n</think>\n\nA2<|im_end|>]");
  EXPECT_EQ(learnt(bare("qwen3"), kThoughts), learnt(family("qwen3"), kThoughts));
  EXPECT_EQ(learnt(bare("qwen3"), kThoughts, {.mask_reasoning = true}),
            "[A1<|im_end|>][\n\nA2<|im_end|>]");
  // The generation prompt is not how the turn begins.
  EXPECT_EQ(learnt(bare("nemotron3")), "[A1<|im_end|>][A2<|im_end|>]");
}

TEST(ChatTraining, MasksThoughtsThatTheGenerationPromptOpens) {
  const std::string source =
      "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% else %}<think>\n"
      "{% generation %}{{ m.content }}.{% endgeneration %}{% endif %}{% endfor %}";
  EXPECT_EQ(learnt(source,
                   R"([{"role":"assistant","content":"a</think>b<think>c</think>d"},)"
                   R"({"role":"assistant","content":"e"}])",
                   {.mask_reasoning = true}),
            "[b][d.]");
}

TEST(ChatTraining, RefusesTurnsThatCannotBeFound) {
  EXPECT_EQ(
      error_of([] { trained("{{ messages | length }}"); }),
      "65 t: where message 2 stands in the text cannot be told; a template with generation blocks "
      "says so");
  EXPECT_EQ(error_of([] { trained("{{ raise_exception('no') }}"); }), "65 no");
  EXPECT_EQ(error_of([] { trained("", "{}"); }), "65 t: messages: expected a list");
}

// A block in a macro says nothing of its place: the turns are found as without blocks.
TEST(ChatTraining, FindsTurnsWhereBlocksHaveNoPlace) {
  EXPECT_EQ(
      learnt("{% macro say(m) %}{% generation %}{{ m.content }}{% endgeneration %}{% endmacro %}"
             "{% for m in messages %}<{{ m.role }}>{{ say(m) }};{% endfor %}"
             "{% if add_generation_prompt %}<assistant>{% endif %}"),
      "[A1;][A2;]");
}

TEST(ChatTraining, TokensBeginWhereTheirBytesDo) {
  const Gpt2Files files(vocabulary_of(kLowTokens), kLowMerges);
  const Gpt2Bpe tokenizer = files.load();
  const std::string text = "lower é newer";
  const auto ids = encode(tokenizer, text);
  const std::vector<std::size_t> starts = token_starts(tokenizer, text, ids);
  // "low" "er" " " and two bytes of one character, " new" "er"
  EXPECT_EQ(starts, (std::vector<std::size_t>{0, 3, 5, 6, 6, 8, 12}));
  const auto in = [&](std::vector<ByteSpan> spans) {
    return tokens_in(starts, text.size(), spans);
  };
  EXPECT_EQ(in({{4, 7}}), (std::vector<bool>{0, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(in({{0, 1}, {13, 14}}), (std::vector<bool>{1, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(in({}), std::vector<bool>(7));
  EXPECT_EQ(
      error_of([&] { token_starts(tokenizer, "lawer", ids); }),
      "78 GPT2BPETokenizer: its tokens do not give the text back from byte 1 on, so that where "
      "they stand in it is not known");
  EXPECT_THROW(token_starts(tokenizer, text + "!", ids), Error);
}

// GPT-2's vocabulary: a token that straddles the beginning of a block counts.
TEST(ChatTraining, SampleOfGpt2) {
  const std::string vocabulary = MT_SHARED "/data/gpt2/";
  if (!std::filesystem::exists(vocabulary)) GTEST_SKIP() << "no " << vocabulary;
  const Scratch folder;
  for (const char* const name : {"vocab.json", "merges.txt"})
    std::filesystem::copy_file(vocabulary + name, folder.path(name));
  const HfTokenizer tokenizer(folder.path("vocab.json"));
  const TrainedText text = trained(
      "{% for m in messages %}{% if m.role == 'system' %}{{ m.content + '\\n' }}"
      "{% elif m.role == 'user' %}{{ 'User: ' + m.content + '\\n' }}{% else %}{{ 'Assistant: ' }}"
      "{% generation %}{{ m.content + '<|endoftext|>' }}{% endgeneration %}{{ '\\n' }}{% endif %}"
      "{% endfor %}{% if add_generation_prompt %}{{ 'Assistant: ' }}{% endif %}",
      R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hello there"},)"
      R"({"role":"assistant","content":"Hi!"},{"role":"user","content":"2+2?"},)"
      R"({"role":"assistant","content":"4"}])");
  std::vector<std::int32_t> ids;
  tokenizer.encode(text.text, ids);
  EXPECT_EQ(ids,
            (std::vector<std::int32_t>{3856,  4506, 13,    198, 12982, 25,  18435, 612,   198,
                                       48902, 25,   15902, 0,   50256, 198, 12982, 25,    362,
                                       10,    17,   30,    198, 48902, 25,  604,   50256, 198}));
  const auto in = tokens_in(token_starts(tokenizer, text.text, ids), text.text.size(), text.spans);
  EXPECT_EQ(in, (std::vector<bool>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1,
                                   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0}));
}

}  // namespace mt
