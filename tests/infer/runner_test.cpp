// The ways to run a model agree: with the cache token by token, in pieces, or all at once.
#include "infer/runner.h"

#include <gtest/gtest.h>

#include "tests/infer/small_gpt.h"
#include "tests/support/host_tensor.h"

namespace mt {
namespace {

class RunnerOf : public testing::TestWithParam<GptConfig (*)()> {};

TEST_P(RunnerOf, TokenByTokenEqualsAllAtOnce) {
  const auto model = make_gpt(GetParam()());
  Runner runner(*model, 1);
  const auto count = static_cast<std::size_t>(runner.max_tokens());
  const std::vector<std::int32_t> ids = some_tokens(count);
  const std::span all(ids);
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

INSTANTIATE_TEST_SUITE_P(Models, RunnerOf, testing::Values(small_gpt2, small_llama),
                         [](const auto& which) { return which.index == 0 ? "Gpt2" : "Llama"; });

}  // namespace
}  // namespace mt
