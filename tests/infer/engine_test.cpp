#include "infer/engine.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "tests/infer/letters.h"
#include "tests/infer/small_gpt.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

using Finish = Completion::Finish;
constexpr std::int32_t kVocabulary = 30;
const Letters kTokens;
const CompletionModel kLetters{.tokenizer = kTokens, .vocab_size = kVocabulary};

CompletionOptions options_of(std::int64_t count, const Sampling& sampling) {
  return {.num_tokens = count, .ignore_eod = true, .begin_document = true, .sampling = {sampling}};
}
CompletionOptions greedy(std::int64_t count) { return options_of(count, {.temperature = 0}); }

// Completions of several prompts, `together` at a time.
std::vector<std::vector<std::int32_t>> generate_all(const Gpt& model,
                                                    const std::vector<std::string>& prompts,
                                                    const std::vector<CompletionOptions>& options,
                                                    std::int64_t together, int threads = 1) {
  Engine engine(
      model, {.vocab_size = kVocabulary, .limits = {.max_requests = together, .threads = threads}});
  std::deque<Completion> completions;
  const auto unfinished = [&] {
    return std::ranges::any_of(completions,
                               [](const Completion& c) { return c.finish() == Finish::none; });
  };
  while (completions.size() < prompts.size() || unfinished()) {
    while (completions.size() < prompts.size() && !engine.full()) {
      const std::size_t n = completions.size();
      completions.emplace_back(kLetters, prompts[n], options[n % options.size()],
                               static_cast<std::uint32_t>(n), 0);
      engine.submit(completions.back());
    }
    engine.step();
  }
  std::vector<std::vector<std::int32_t>> made;
  for (const Completion& c : completions) made.emplace_back(c.made().begin(), c.made().end());
  return made;
}

std::vector<std::int32_t> generate(const Gpt& model, const std::string& prompt,
                                   const CompletionOptions& options, int threads = 1) {
  return generate_all(model, {prompt}, {options}, 1, threads).at(0);
}

// The likeliest tokens, each found anew from all that the model may see.
std::vector<std::int32_t> expected_greedy(const Gpt& model, const std::string& prompt,
                                          std::size_t count) {
  std::vector<std::int32_t> seen{Letters::kEod};
  Letters().encode(prompt, seen);
  CachedPass pass(model, {.vocab_size = kVocabulary});
  const auto room = static_cast<std::size_t>(pass.max_tokens());
  std::size_t context = seen.size();
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < count; ++i) {
    if (context > room) context = room / 2;
    pass.start(0);
    const ConstTensor logits = pass.next_logits(0, std::span(seen).last(context));
    std::int32_t best = 0;
    for (std::int32_t id = 1; id < kVocabulary; ++id)
      if (element(logits, id) > element(logits, best)) best = id;
    tokens.push_back(best);
    seen.push_back(best);
    ++context;
  }
  return tokens;
}

class EngineOf : public testing::TestWithParam<ModelConfig (*)()> {
 protected:
  std::unique_ptr<Gpt> model_ = make_gpt(GetParam()());
};

// 12 positions: the text outgrows them several times; prompts that fill them.
TEST_P(EngineOf, GreedyIsTheLikeliestTokenEachTime) {
  for (const char* prompt : {"", "a", "abcde", "abcdefghij", "abcdefghijk"}) {
    SCOPED_TRACE(prompt);
    EXPECT_EQ(generate(*model_, prompt, greedy(50)), expected_greedy(*model_, prompt, 50));
  }
}

TEST_P(EngineOf, SameCommandSameText) {
  const auto hot = [](std::int64_t count, std::uint64_t seed) {
    return options_of(count, {.temperature = 2, .seed = seed});
  };
  const auto text = generate(*model_, "abc", hot(40, 9));
  EXPECT_EQ(text.size(), 40U);
  EXPECT_EQ(generate(*model_, "abc", hot(40, 9), 4), text);
  EXPECT_NE(generate(*model_, "abc", hot(40, 10)), text);
  EXPECT_NE(generate_all(*model_, {"x", "abc"}, {hot(40, 9)}, 1).at(1), text);
  // A longer text begins with the shorter one.
  auto longer = generate(*model_, "abc", hot(60, 9));
  longer.resize(40);
  EXPECT_EQ(longer, text);
}

INSTANTIATE_TEST_SUITE_P(Models, EngineOf, testing::Values(small_gpt2, small_llama),
                         [](const auto& which) { return which.index == 0 ? "Gpt2" : "Llama"; });

// In single precision, prompts and texts of many lengths, ends and settings: what is beside them
// changes no token.
TEST(Engine, CompletionsDoNotNoticeEachOther) {
  const auto model = make_gpt(small_llama(), DType::f32);
  std::vector<std::string> prompts;
  std::vector<CompletionOptions> options;
  for (std::size_t n = 0; n < 40; ++n) {
    prompts.push_back(std::string("abcdefghijklmnop").substr(n % 5, n % 11));
    options.push_back(options_of(static_cast<std::int64_t>(1 + n * 7 % 30),
                                 {.temperature = 0.5 + static_cast<double>(n % 4)}));
    options.back().ignore_eod = n % 3 != 0;
  }
  const auto alone = generate_all(*model, prompts, options, 1);
  for (const std::int64_t together : {2, 3, 16, 17, 40})
    EXPECT_EQ(generate_all(*model, prompts, options, together, 2), alone) << together;
}

// More than share a step, of which some end, and others take their places.
TEST(Engine, MoreThanShareAStep) {
  const auto model = make_gpt(small_llama(), DType::f32);
  std::vector<std::string> prompts;
  std::vector<CompletionOptions> options;
  for (std::size_t n = 0; n < 300; ++n) {
    prompts.push_back(std::string("abcdefghijklmnop").substr(n % 7, n % 5));
    options.push_back(options_of(static_cast<std::int64_t>(1 + n * 5 % 11),
                                 {.temperature = static_cast<double>(n % 3), .top_p = 0.9}));
    if (n % 2 == 0) options.back().top_p_decay = {0.8, 0.3};
  }
  const auto alone = generate_all(*model, prompts, options, 1);
  for (const std::int64_t together : {270, 300})
    EXPECT_EQ(generate_all(*model, prompts, options, together, 2), alone) << together;
}

// Prompts that are short pieces and such as are not, read in one step: to the bit as each alone.
TEST(Engine, PromptsThatAreReadTogetherSayWhatTheySayAlone) {
  ModelConfig config = small_llama();
  config.max_position_embeddings = 64;
  const auto model = make_gpt(config, DType::f32);
  const auto log_probs = [&](std::int64_t together) {
    Engine engine(*model, {.vocab_size = kVocabulary,
                           .limits = {.max_requests = together, .prefill_tokens = 1000}});
    std::deque<Completion> completions;
    CompletionOptions options = greedy(3);
    options.logprobs = 0;
    for (std::uint32_t n = 0; n < 40; ++n) {
      const std::string letters = "hellomydearfriendwhatisthetimeofdaynowintherain";
      completions.emplace_back(kLetters, letters.substr(n % 7, n), options, n, 0);
      engine.submit(completions.back());
    }
    while (engine.step()) continue;
    std::vector<double> all;
    for (const Completion& c : completions)
      for (const LogProbs& probs : c.log_probs()) all.push_back(probs.chosen);
    return all;
  };
  const std::vector<double> alone = log_probs(1);
  EXPECT_EQ(alone.size(), 120U);
  for (const std::int64_t together : {2, 16, 40}) EXPECT_EQ(log_probs(together), alone) << together;
}

// Texts of one prompt, as a policy's group: it is read once, in pieces that fill pages and one that
// does not, and so are the pages that another prompt has at its beginning, too; each text is what
// it is alone.
TEST(Engine, TextsOfOnePromptReadItOnce) {
  ModelConfig config = small_llama();
  config.max_position_embeddings = 128;
  const auto model = make_gpt(config, DType::f32);
  std::string longer;
  for (int i = 0; i < 53; ++i) longer += static_cast<char>('a' + i * 7 % 26);
  for (const std::int64_t page : {8, 32}) {
    const auto texts = [&](std::int64_t together, Engine::Counts& counts) {
      Engine engine(*model, {.vocab_size = kVocabulary,
                             .limits = {.max_requests = together, .prefill_tokens = 40},
                             .page_tokens = page});
      std::deque<Completion> completions;
      CompletionOptions options = options_of(9, {.temperature = 1.5});
      options.begin_document = false;
      for (std::uint32_t n = 0; n < 12; ++n) {
        const std::string prompt = n % 3 == 2 ? longer + "xyz" : longer;
        completions.emplace_back(kLetters, prompt, options, 1, n);
        engine.submit(completions.back());
      }
      while (engine.step()) continue;
      counts = engine.counts();
      std::vector<std::vector<std::int32_t>> made;
      for (const Completion& c : completions) made.emplace_back(c.made().begin(), c.made().end());
      return made;
    };
    Engine::Counts alone, together;
    const auto expected = texts(1, alone);
    EXPECT_EQ(texts(12, together), expected);
    EXPECT_EQ(std::set(expected.begin(), expected.end()).size(), 12U);
    EXPECT_EQ(alone.read + alone.shared, 8 * 53 + 4 * 56);
    EXPECT_EQ(together.read + together.shared, 8 * 53 + 4 * 56);
    const std::int64_t last = page == 8 ? 5 : 21;  // tokens behind the last whole page: a short
    EXPECT_EQ(together.read, page == 8 ? 53 + 7 * last + 8 : 53 + 24) << page;  // piece or not
  }
}

// All are submitted at once: each waits until there is a page for it.
TEST(Engine, WhatWaitsComesInItsOrder) {
  const auto model = make_gpt(small_llama());
  Engine engine(*model, {.vocab_size = kVocabulary, .limits = {.max_requests = 2}});
  std::deque<Completion> completions;
  EXPECT_FALSE(engine.step());
  for (std::uint32_t n = 0; n < 5; ++n) {
    EXPECT_EQ(engine.full(), n >= 2);
    completions.emplace_back(kLetters, "abc", greedy(n == 0 ? 9 : 3), n, 0);
    engine.submit(completions.back());
  }
  const auto made = [&] {
    std::vector<std::size_t> sizes;
    for (const Completion& c : completions) sizes.push_back(c.made().size());
    return sizes;
  };
  EXPECT_TRUE(engine.step());
  EXPECT_EQ(made(), (std::vector<std::size_t>{1, 1, 0, 0, 0}));
  for (int i = 0; i < 3; ++i) engine.step();
  EXPECT_EQ(made(), (std::vector<std::size_t>{4, 3, 1, 0, 0}));
  while (engine.step()) continue;
  EXPECT_EQ(made(), (std::vector<std::size_t>{9, 3, 3, 3, 3}));
  for (const Completion& c : completions) {
    const auto expected =
        generate(*model, "abc", greedy(static_cast<std::int64_t>(c.made().size())));
    EXPECT_EQ(std::vector(c.made().begin(), c.made().end()), expected);
  }
}

// What is cancelled gets no more tokens, wherever it is, and its page goes to another.
TEST(Engine, CancelledTextsStop) {
  const auto model = make_gpt(small_gpt2());
  Engine engine(*model, {.vocab_size = kVocabulary, .limits = {.max_requests = 2}});
  std::deque<Completion> completions;
  std::vector<Engine::Ticket> tickets;
  for (std::uint32_t n = 0; n < 5; ++n) {
    completions.emplace_back(kLetters, std::string("abcde").substr(n), greedy(6), n, 0);
    tickets.push_back(engine.submit(completions.back()));
  }
  for (int i = 0; i < 2; ++i) engine.step();
  engine.cancel(tickets[0]);  // is continued
  engine.cancel(tickets[3]);  // waits
  while (engine.step()) continue;
  engine.cancel(tickets[1]);  // is finished
  EXPECT_FALSE(engine.full());
  const std::size_t expected[] = {2, 6, 6, 0, 6};
  for (std::size_t n = 0; n < 5; ++n) {
    SCOPED_TRACE(n);
    ASSERT_EQ(completions[n].made().size(), expected[n]);
    auto alone = generate(*model, std::string("abcde").substr(n), greedy(6));
    alone.resize(expected[n]);
    EXPECT_EQ(std::vector(completions[n].made().begin(), completions[n].made().end()), alone);
  }
}

// Ids 30 and 31 only fill the vocabulary up; here they are the model's favourites.
TEST(Engine, NeverChoosesPadding) {
  const auto model = make_gpt(small_llama());
  const Tensor table = model->table().at("output_layer.weight").value;
  ASSERT_EQ(table.shape()[0], 32);
  for (std::int64_t column = 0; column < table.shape()[1]; ++column)
    for (const std::int64_t row : {30, 31})
      table.as<double>()[row * table.shape()[1] + column] *= 100;
  CachedPass with_padding(*model, {.vocab_size = 32});
  const ConstTensor logits = with_padding.next_logits(0, std::vector<std::int32_t>{1});
  EXPECT_GT(std::abs(element(logits, 30)), 10);
  for (const char first : std::string("abcdefghijklmnopqrstuvwxyz"))
    for (const Sampling& sampling :
         {Sampling{.temperature = 0}, Sampling{}, Sampling{.temperature = 50}})
      for (const std::int32_t token : generate(*model, {first}, options_of(20, sampling)))
        EXPECT_LT(token, kVocabulary);
}

}  // namespace
}  // namespace mt
