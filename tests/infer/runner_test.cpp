// The ways to run a model agree: with the cache token by token, in pieces, all at once, and scored.
#include "infer/runner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/infer/small_gpt.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

// -log softmax(logits)[token]
double nll_of(const ConstTensor& logits, std::int32_t token) {
  double top = element(logits, 0), sum = 0;
  for (std::int64_t i = 0; i < logits.numel(); ++i) top = std::max(top, element(logits, i));
  for (std::int64_t i = 0; i < logits.numel(); ++i) sum += std::exp(element(logits, i) - top);
  return std::log(sum) + top - element(logits, token);
}

class RunnerOf : public testing::TestWithParam<GptConfig (*)()> {};

TEST_P(RunnerOf, TokenByTokenEqualsAllAtOnceEqualsScore) {
  const auto model = make_gpt(GetParam()());
  Runner runner(*model, 1);
  const auto count = static_cast<std::size_t>(runner.max_tokens());
  const std::vector<std::int32_t> ids = some_tokens(count + 1);
  const std::span all(ids);
  std::vector<double> nll(count);
  runner.score(ids, nll);

  Runner stepping(*model, 2);
  stepping.start();
  for (std::size_t i = 0; i < count; ++i) {
    SCOPED_TRACE(i);
    const HostTensor stepped = clone(stepping.next_logits(all.subspan(i, 1)));
    EXPECT_EQ(stepping.length(), static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(stepped.view().numel(), model->config().padded_vocab_size);
    runner.start();
    const HostTensor at_once = clone(runner.next_logits(all.first(i + 1)));
    EXPECT_TENSORS_NEAR(stepped.view(), at_once.view(), 1e-12);
    EXPECT_NEAR(nll_of(stepped.view(), ids[i + 1]), nll[i], 1e-12 * nll[i]);
  }
}

TEST_P(RunnerOf, PiecesOfAnyLength) {
  const auto model = make_gpt(GetParam()());
  Runner runner(*model, 1);
  const std::vector<std::int32_t> ids = some_tokens(12);
  const std::span all(ids);
  runner.start();
  const HostTensor expected = clone(runner.next_logits(all));
  for (std::size_t cut = 1; cut < ids.size(); ++cut) {
    runner.start();
    runner.next_logits(all.first(cut));
    EXPECT_TENSORS_NEAR(runner.next_logits(all.subspan(cut)), expected.view(), 1e-12);
  }
}

// A shorter input's predictions do not depend on what comes later, nor on what was run before.
TEST_P(RunnerOf, ScoresArePredictionsFromThePast) {
  const auto model = make_gpt(GetParam()());
  Runner runner(*model, 1);
  const std::vector<std::int32_t> ids = some_tokens(13);
  std::vector<double> all(12), again(12);
  runner.score(ids, all);
  for (std::size_t count = 1; count <= 12; ++count) {
    std::vector<double> some(count);
    runner.score(std::span(ids).first(count + 1), some);
    for (std::size_t i = 0; i < count; ++i) EXPECT_NEAR(some[i], all[i], 1e-12 * all[i]);
  }
  runner.score(ids, again);
  EXPECT_EQ(again, all);
  Runner wider(*model, 3);  // nor on the number of threads
  wider.score(ids, again);
  EXPECT_EQ(again, all);
}

INSTANTIATE_TEST_SUITE_P(Models, RunnerOf, testing::Values(small_gpt2, small_llama),
                         [](const auto& which) { return which.index == 0 ? "Gpt2" : "Llama"; });

TEST(Runner, SinglePrecision) {
  const auto model = make_gpt(small_gpt2(), DType::f32);
  const auto reference = make_gpt(small_gpt2());
  for (std::size_t i = 0; i < model->table().rows().size(); ++i) {
    const Tensor from = model->table().rows()[i].value, to = reference->table().rows()[i].value;
    fill_with(to, [&](std::int64_t at) { return element(from, at); });
  }
  Runner runner(*model, 1), exact(*reference, 1);
  const std::vector<std::int32_t> ids = some_tokens(13);
  std::vector<double> nll(12), expected(12);
  runner.score(ids, nll);
  exact.score(ids, expected);
  for (std::size_t i = 0; i < nll.size(); ++i) EXPECT_NEAR(nll[i], expected[i], 1e-5 * expected[i]);
}

}  // namespace
}  // namespace mt
