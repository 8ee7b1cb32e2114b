#include "infer/completion.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/infer/letters.h"
#include "tests/text/hf_files.h"

namespace mt {
namespace {

using Finish = Completion::Finish;
const Letters kTokens;
const CompletionModel kLetters{.tokenizer = kTokens, .vocab_size = 30};

// Logits of which `token` is by far the largest.
std::vector<double> prefer(std::int32_t token) {
  std::vector<double> logits(30, 0.0);
  logits[static_cast<std::size_t>(token)] = 1000;
  return logits;
}

// Lets the tokens be chosen one by one until an end; returns what take() gave after each.
std::vector<std::string> push(Completion& completion, const std::vector<std::int32_t>& tokens) {
  std::vector<std::string> parts;
  for (const std::int32_t token : tokens) {
    if (completion.finish() != Finish::none) break;
    completion.choose(prefer(token));
    parts.emplace_back(completion.take());
  }
  return parts;
}

std::vector<std::int32_t> ids(std::string_view text) {
  std::vector<std::int32_t> ids;
  kTokens.encode(text, ids);
  return ids;
}

TEST(Completion, BeginsWithWhatTheTokenizerMakes) {
  const Completion completion(kLetters, "ab", {}, 0, 0);
  EXPECT_EQ(completion.ids(), (std::vector<std::int32_t>{0, 1}));
  EXPECT_TRUE(completion.made().empty());
  EXPECT_EQ(completion.finish(), Finish::none);
}

// As generate() of transformers gets them from its tokenizer: tokens that a template puts around a
// text are there, a text that begins with BOS has it twice, and an empty one has what is put around
// nothing, or BOS alone.
TEST(Completion, BeginsWithWhatTheTokenizerPutsAround) {
  using Ids = std::vector<std::int32_t>;
  constexpr std::int32_t kBos = 9, kEos = 10;
  const auto token = [](const char* name) {
    return concat(R"({"SpecialToken":{"id":")", name, R"(","type_id":0}})");
  };
  const std::string text = R"({"Sequence":{"id":"A","type_id":0}})";
  const auto around = [&](const std::string& single) {
    return concat(R"({"type":"TemplateProcessing","single":[)", single,
                  R"(],"pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[9],"tokens":["<s>"]},)",
                  R"("</s>":{"id":"</s>","ids":[10],"tokens":["</s>"]}}})");
  };
  HfParts parts;
  parts.added_tokens =
      concat("[", hf_added(kBos, "<s>", "special"), ",", hf_added(kEos, "</s>", "special"), "]");
  const auto begins = [&](const std::string& post_processor, std::string_view prompt,
                          const std::string& more = {}, const CompletionOptions& options = {}) {
    parts.post_processor = post_processor;
    const HfFiles files(
        parts.text(),
        concat(R"({"bos_token":"<s>","eos_token":"</s>")",
               more.empty() ? R"(,"tokenizer_class":"PreTrainedTokenizerFast")" : "", more, "}"));
    const HfTokenizer tokenizer(files.folder());
    const CompletionModel model{.tokenizer = tokenizer, .vocab_size = 11};
    return Completion(model, prompt, options, 0, 0).ids();
  };
  const std::string bos = around(token("<s>") + "," + text),
                    both = around(token("<s>") + "," + text + "," + token("</s>")),
                    eos = around(text + "," + token("</s>"));
  EXPECT_EQ(begins("null", "ab"), (Ids{4}));
  EXPECT_EQ(begins(bos, "ab"), (Ids{kBos, 4}));
  EXPECT_EQ(begins(both, "ab"), (Ids{kBos, 4, kEos}));
  EXPECT_EQ(begins(eos, "ab"), (Ids{4, kEos}));
  EXPECT_EQ(begins(bos, "<s>ab"), (Ids{kBos, kBos, 4}));
  EXPECT_EQ(begins("null", "<s>ab</s>c"), (Ids{kBos, 4, kEos, 2}));
  EXPECT_EQ(begins(bos, ""), (Ids{kBos}));
  EXPECT_EQ(begins(both, ""), (Ids{kBos, kEos}));
  EXPECT_EQ(begins("null", ""), (Ids{kBos}));
  // What a class puts, as its folder says.
  const std::string llama = R"(,"tokenizer_class":"LlamaTokenizer")";
  EXPECT_EQ(begins("null", "ab", llama), (Ids{kBos, 4}));
  EXPECT_EQ(begins("null", "ab", llama + R"(,"add_bos_token":false)"), (Ids{4}));
  EXPECT_EQ(begins("null", "ab", llama + R"(,"add_eos_token":true)"), (Ids{kBos, 4, kEos}));
  // A chat's prompt has its own, and an end of a document may stand before all of it.
  EXPECT_EQ(begins(bos, "<s>ab", "", {.has_own_tokens = true}), (Ids{kBos, 4}));
  EXPECT_EQ(begins(bos, "ab", "", {.begin_document = true}), (Ids{kEos, kBos, 4}));
}

// Asked for, or where there would be no token.
TEST(Completion, BeginsBehindTheEndOfADocument) {
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(Completion(kLetters, "ab", {.begin_document = true}, 0, 0).ids(),
            (Ids{Letters::kEod, 0, 1}));
  EXPECT_EQ(Completion(kLetters, "", {}, 0, 0).ids(), (Ids{Letters::kEod}));
  EXPECT_EQ(Completion(kLetters, "", {.begin_document = true}, 0, 0).ids(), (Ids{Letters::kEod}));
}

// A tokenizer may have words more than the model.
TEST(Completion, TokensBeyondTheModelAreAnError) {
  const CompletionModel small{.tokenizer = kTokens, .vocab_size = 2};
  EXPECT_EQ(Completion(small, "ab", {}, 0, 0).ids().size(), 2U);
  EXPECT_THROW(Completion(small, "abc", {}, 0, 0), Error);
  EXPECT_THROW(Completion(small, "", {}, 0, 0), Error);
}

// Where the model's folder says what ends a text, the tokenizer's end of a document is none.
TEST(Completion, TheModelsOwnEnds) {
  const CompletionModel own{.tokenizer = kTokens, .vocab_size = 30, .end_tokens = {3, 29}};
  for (const std::int32_t end : own.end_tokens) {
    Completion ended(own, "x", {}, 0, 0);
    push(ended, {0, Letters::kEod, end});
    EXPECT_EQ(ended.text(), "a<end>");
    EXPECT_EQ(ended.finish(), Finish::stop);
  }
  Completion going_on(own, "x", {.num_tokens = 2, .ignore_eod = true}, 0, 0);
  push(going_on, {3, 0});
  EXPECT_EQ(going_on.text(), "da");
}

TEST(Completion, Length) {
  Completion completion(kLetters, "x", {.num_tokens = 3}, 0, 0);
  EXPECT_EQ(push(completion, ids("abcd")), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(completion.finish(), Finish::length);
  EXPECT_EQ(completion.text(), "abc");
  EXPECT_EQ(Completion(kLetters, "x", {.num_tokens = 0}, 0, 0).finish(), Finish::length);
}

// The token that ends a text is not part of it.
TEST(Completion, EndOfDocumentAndStopTokens) {
  Completion ended(kLetters, "x", {}, 0, 0);
  push(ended, {0, Letters::kEod});
  EXPECT_EQ(ended.finish(), Finish::stop);
  EXPECT_EQ(ended.text(), "a");
  EXPECT_EQ(ended.made().size(), 1U);

  Completion going_on(kLetters, "x", {.num_tokens = 3, .ignore_eod = true}, 0, 0);
  push(going_on, {0, Letters::kEod, 1});
  EXPECT_EQ(going_on.text(), "a<end>b");
  EXPECT_EQ(going_on.finish(), Finish::length);

  Completion stopped(kLetters, "x", {.stop_tokens = {5, 7}}, 0, 0);
  push(stopped, {0, 1, 7, 2});
  EXPECT_EQ(stopped.text(), "ab");
  EXPECT_EQ(stopped.finish(), Finish::stop);
}

// Several stop texts: the one that is found first, of those that begin together the longest.
TEST(Completion, StopTexts) {
  Completion first(kLetters, "x", {.stop = {"cd", "bc"}}, 0, 0);
  push(first, ids("abcd"));
  EXPECT_EQ(first.text(), "a");
  EXPECT_EQ(first.finish(), Finish::stop);
  Completion held(kLetters, "x", {.stop = {"bcx", "cdd"}}, 0, 0);
  EXPECT_EQ(push(held, ids("abcdbcd")),
            (std::vector<std::string>{"a", "", "", "b", "cd", "", "b"}));
  Completion with(kLetters, "x", {.stop = {"bc"}, .include_stop = true}, 0, 0);
  push(with, ids("abcd"));
  EXPECT_EQ(with.text(), "abc");
  EXPECT_EQ(with.made().size(), 3U);
}

// Tokens behind which a text ends, with them: one, or two of a kind.
TEST(Completion, LastTokens) {
  Completion one(kLetters, "x", {.ignore_eod = true, .last_tokens = {2}}, 0, 0);
  push(one, {0, Letters::kEod, 2, 1});
  EXPECT_EQ(one.text(), "a<end>c");
  EXPECT_EQ(one.finish(), Finish::stop);
  Completion pair(kLetters, "c", {.last_pair = 2}, 0, 0);
  push(pair, {0, 2, 1, 2, 2, 0});
  EXPECT_EQ(pair.text(), "acbcc");
}

// 0.9, 0.81, 0.729, 0.6561, 0.59049, 0.531441, 0.5, 0.5
TEST(Completion, TopPShrinks) {
  CompletionOptions options;
  options.sampling.top_p = 0.9;
  options.top_p_decay = {0.9, 0.5};
  Completion completion(kLetters, "x", options, 0, 0);
  for (const double p : {0.9, 0.81, 0.729, 0.6561, 0.59049, 0.531441, 0.5, 0.5}) {
    EXPECT_DOUBLE_EQ(completion.choice().rule.top_p, p);
    push(completion, {0});
  }
}

// The end is told, and how likely it was.
TEST(Completion, EndToken) {
  Completion completion(kLetters, "x", {.logprobs = 1}, 0, 0);
  push(completion, {0, Letters::kEod});
  EXPECT_EQ(completion.made().size(), 1U);
  EXPECT_EQ(completion.end_token(), Letters::kEod);
  EXPECT_EQ(completion.log_probs().size(), 2U);
  EXPECT_EQ(completion.log_probs()[1].top.front().first, Letters::kEod);
}

TEST(Completion, APromptOfTokens) {
  Completion completion(kLetters, std::vector<std::int32_t>{0, 1}, {.num_tokens = 1}, 0, 0);
  EXPECT_EQ(completion.ids(), (std::vector<std::int32_t>{0, 1}));
  push(completion, {2});
  EXPECT_EQ(completion.text(), "c");
  EXPECT_THROW(Completion(kLetters, std::vector<std::int32_t>{30}, {}, 0, 0), Error);
}

// However the tokenizer cuts it; the text ends before it, and nothing of it is ever shown.
TEST(Completion, StopText) {
  Completion completion(kLetters, "abc", {.stop = {"aab"}}, 0, 0);
  EXPECT_EQ(push(completion, ids("abaaabcc")),
            (std::vector<std::string>{"", "ab", "", "", "a", ""}));
  EXPECT_EQ(completion.finish(), Finish::stop);
  EXPECT_EQ(completion.text(), "aba");
  EXPECT_EQ(completion.made().size(), 6U);

  Completion inside(kLetters, "", {.stop = {"or"}}, 0, 0);
  EXPECT_EQ(push(inside, {0, 29}), (std::vector<std::string>{"a", "w"}));
  EXPECT_EQ(inside.text(), "aw");

  // What might have become one is shown at the end.
  Completion cut(kLetters, "", {.num_tokens = 2, .stop = {"abc"}}, 0, 0);
  EXPECT_EQ(push(cut, ids("ab")), (std::vector<std::string>{"", "ab"}));
  EXPECT_EQ(cut.finish(), Finish::length);
}

TEST(Completion, CharactersAppearWhole) {
  Completion completion(kLetters, "", {.num_tokens = 4}, 0, 0);
  EXPECT_EQ(push(completion, {26, 27, 0, 26}),
            (std::vector<std::string>{"", "\xC3\xA9", "a", "\xEF\xBF\xBD"}));
  EXPECT_EQ(completion.text(),
            "\xC3\xA9"
            "a\xEF\xBF\xBD");
}

TEST(Completion, LogProbabilities) {
  Completion completion(kLetters, "", {.num_tokens = 2, .logprobs = 3}, 0, 0);
  std::vector<double> logits(30, -HUGE_VAL);
  logits[3] = std::log(0.5);
  logits[9] = logits[4] = std::log(0.25);
  completion.choose(logits);
  const LogProbs& probs = completion.log_probs().at(0);
  ASSERT_EQ(probs.top.size(), 3U);
  EXPECT_EQ(probs.top[0].first, 3);
  EXPECT_EQ(probs.top[1].first, 4);  // equal ones by id
  EXPECT_EQ(probs.top[2].first, 9);
  EXPECT_NEAR(probs.top[0].second, std::log(0.5), 1e-15);
  const std::int32_t made = completion.made()[0];
  EXPECT_EQ(probs.chosen, made == 3 ? probs.top[0].second : probs.top[1].second);
  EXPECT_TRUE(Completion(kLetters, "", {}, 0, 0).log_probs().empty());
}

// Another prompt's number or sample is another text.
TEST(Completion, IsAFunctionOfItsNumbers) {
  const auto text = [](std::uint32_t prompt, std::uint32_t sample) {
    Completion completion(kLetters, "", {.num_tokens = 20, .ignore_eod = true}, prompt, sample);
    while (completion.finish() == Finish::none) completion.choose(std::vector<double>(30, 0.0));
    return completion.text();
  };
  EXPECT_EQ(text(1, 2), text(1, 2));
  EXPECT_NE(text(1, 2), text(2, 1));
  EXPECT_NE(text(0, 0), text(0, 1));
  EXPECT_NE(text(0, 0), text(1, 0));
}

TEST(CompletionOptions, Check) {
  const auto wrong = [](const CompletionOptions& options) -> std::string {
    try {
      options.check(30, "stdin:3");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(wrong({.stop = {"a"}, .stop_tokens = {0, 29}, .logprobs = 30}), "");
  EXPECT_EQ(wrong({.stop_tokens = {3, 30}}), "stdin:3: stop token 30: expected 0 to 29");
  EXPECT_EQ(wrong({.logprobs = 31}), "stdin:3: log-probabilities of 31 tokens; the model knows 30");
  EXPECT_EQ(wrong({.stop = {""}}), "stdin:3: the stop text is empty");
}

}  // namespace
}  // namespace mt
