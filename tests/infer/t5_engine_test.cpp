// A T5 in the engine: what its decoder says, token by token from the cache, is what both stacks say
// when they run over all of their tokens each time.
#include <gtest/gtest.h>

#include <deque>

#include "infer/engine.h"
#include "tests/infer/letters.h"
#include "tests/infer/small_t5.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

using Finish = Completion::Finish;
using Ids = std::vector<std::int32_t>;
constexpr std::int32_t kVocabulary = 30, kStart = 29;
const Letters kTokens;

CompletionModel letters_of(const Model& model) {
  return {.tokenizer = kTokens,
          .vocab_size = kVocabulary,
          .start_token = kStart,
          .decoder_positions = model.config().max_position_embeddings};
}

CompletionOptions greedy(std::int64_t count, bool to_the_end = true) {
  return {.num_tokens = count, .ignore_eod = to_the_end, .sampling = {{.temperature = 0}}};
}

// Completions of several prompts, `together` at a time; those whose number is in `cancelled` are
// after as many steps.
std::vector<Ids> generate_all(const Model& model, const std::vector<std::string>& prompts,
                              const std::vector<CompletionOptions>& options, std::int64_t together,
                              int cancelled = 0) {
  Engine engine(model,
                {.vocab_size = kVocabulary, .limits = {.max_requests = together, .threads = 2}});
  const CompletionModel about = letters_of(model);
  std::deque<Completion> completions;
  std::vector<Engine::Ticket> tickets;
  for (std::size_t n = 0; n < prompts.size(); ++n) {
    completions.emplace_back(about, prompts[n], options[n % options.size()],
                             static_cast<std::uint32_t>(n), 0);
    tickets.push_back(engine.submit(completions.back()));
  }
  for (int steps = 1; engine.step(); ++steps)
    if (steps <= cancelled) engine.cancel(tickets[static_cast<std::size_t>(3 * steps)]);
  std::vector<Ids> made;
  for (const Completion& c : completions) made.emplace_back(c.made().begin(), c.made().end());
  return made;
}

Ids tokens_of(const std::string& prompt) {
  Ids ids;
  kTokens.encode(prompt, ids);
  if (ids.empty()) ids.push_back(Letters::kEod);
  return ids;
}

// The likeliest tokens, each found anew; up to the end where that is asked for.
Ids expected_greedy(const Model& model, const std::string& prompt, std::size_t count,
                    bool to_the_end = true) {
  const Ids read = tokens_of(prompt);
  Ids seen{kStart};
  while (seen.size() <= count) {
    const std::vector<double> logits = uncached_logits(model, read, seen, kVocabulary);
    const auto best = static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
    if (!to_the_end && best == Letters::kEod) break;
    seen.push_back(best);
  }
  return {seen.begin() + 1, seen.end()};
}

class T5Engine : public testing::TestWithParam<ModelConfig (*)()> {
 protected:
  std::unique_ptr<Model> model_ = make_small_model(GetParam()());
};

INSTANTIATE_TEST_SUITE_P(
    Of, T5Engine, testing::Values(learned_t5, rope_t5, relative_t5), [](const auto& which) {
      return std::string(which.index == 0 ? "Learned" : which.index == 1 ? "Rope" : "Relative");
    });

TEST_P(T5Engine, LogitsAreThoseWithoutACache) {
  CachedPass pass(*model_, {.vocab_size = kVocabulary, .sequences = 2, .threads = 1});
  const Ids read = tokens_of("abcdefghijk"), other = tokens_of("xyz");
  Ids seen{kStart};
  pass.start(0);
  const auto expect_same = [&](ConstTensor logits, const Ids& of) {
    const std::vector<double> expected = uncached_logits(*model_, of, seen, kVocabulary);
    for (std::int64_t id = 0; id < kVocabulary; ++id)
      EXPECT_NEAR(element(logits, id), expected[static_cast<std::size_t>(id)], 1e-12);
  };
  expect_same(pass.next_logits(0, seen, read), read);
  pass.start(1);
  expect_same(pass.next_logits(1, seen, other), other);
  for (const std::int32_t next : {4, 0, 17, 3, 3, 28}) {
    seen.push_back(next);
    const std::int64_t both[] = {1, 0};
    const ConstTensor logits = pass.next_logits(both, Ids{next, next});
    expect_same(logits.rows(0, 1), other);
    expect_same(logits.rows(1, 2), read);
  }
  pass.start(0);  // several tokens of the decoder at a time, behind another text
  seen = {kStart, 5, 6, 7};
  expect_same(pass.next_logits(0, seen, other), other);
  seen.insert(seen.end(), {8, 9, 10});
  expect_same(pass.next_logits(0, Ids{8, 9, 10}), other);
}

TEST_P(T5Engine, GreedyIsTheLikeliestTokenEachTime) {
  for (const char* prompt : {"", "a", "abcde", "qrst", "abcdefghijkl"}) {
    SCOPED_TRACE(prompt);
    EXPECT_EQ(generate_all(*model_, {prompt}, {greedy(9)}, 1).at(0),
              expected_greedy(*model_, prompt, 9));
    EXPECT_EQ(generate_all(*model_, {prompt}, {greedy(9, false)}, 1).at(0),
              expected_greedy(*model_, prompt, 9, false));
  }
}

// Twelve positions: the decoder's are used up, and the text ends there.
TEST_P(T5Engine, EndsWithThePositions) {
  const CompletionModel about = letters_of(*model_);
  Completion completion(about, "abc", greedy(50), 0, 0);
  Engine engine(*model_, {.vocab_size = kVocabulary, .limits = {.threads = 1}});
  engine.submit(completion);
  while (engine.step()) continue;
  EXPECT_EQ(completion.finish(), Finish::length);
  EXPECT_EQ(Ids(completion.made().begin(), completion.made().end()),
            expected_greedy(*model_, "abc", 12));
}

// In single precision, prompts and texts of many lengths, ends and settings, some of which are
// cancelled: what is beside them changes no token.
TEST_P(T5Engine, CompletionsDoNotNoticeEachOther) {
  const auto model = make_small_model(GetParam()(), DType::f32);
  std::vector<std::string> prompts;
  std::vector<CompletionOptions> options;
  for (std::size_t n = 0; n < 30; ++n) {
    prompts.push_back(std::string("abcdefghijklmnop").substr(n % 5, n % 11));
    options.push_back({.num_tokens = static_cast<std::int64_t>(1 + n * 7 % 12),
                       .ignore_eod = n % 3 != 0,
                       .sampling = {{.temperature = static_cast<double>(n % 4)}}});
  }
  const auto alone = generate_all(*model, prompts, options, 1);
  for (const std::int64_t together : {2, 7, 17, 30})
    EXPECT_EQ(generate_all(*model, prompts, options, together), alone) << together;
  const auto cancelled = generate_all(*model, prompts, options, 7, 5);
  for (std::size_t n = 0; n < prompts.size(); ++n) {
    Ids begun = alone[n];
    const bool is_cancelled = n > 0 && n % 3 == 0 && n <= 15;
    if (is_cancelled) begun.resize(std::min(begun.size(), cancelled[n].size()));
    EXPECT_EQ(cancelled[n], begun) << n;
  }
}

// A long prompt comes while others are continued: all move to larger pages.
TEST_P(T5Engine, PagesGrow) {
  ModelConfig config = GetParam()();
  config.max_position_embeddings = 600;
  const auto model = make_small_model(config);
  const std::vector<std::string> prompts{"abcde", "xy", std::string(500, 'q'), "", "lmn"};
  std::vector<CompletionOptions> options;
  for (const std::int64_t count : {9, 5, 4, 300, 8}) options.push_back(greedy(count));
  std::vector<Ids> alone;
  for (std::size_t n = 0; n < prompts.size(); ++n)
    alone.push_back(generate_all(*model, {prompts[n]}, {options[n]}, 1).at(0));
  EXPECT_EQ(generate_all(*model, prompts, options, 2), alone);
  EXPECT_EQ(alone[2], expected_greedy(*model, prompts[2], 4));
}

}  // namespace
}  // namespace mt
