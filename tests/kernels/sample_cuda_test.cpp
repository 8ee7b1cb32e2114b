// Tokens chosen on a GPU are the CPU's where the logits are equal.
#include "kernels/sample.h"

#include <cmath>
#include <limits>

#include "tests/kernels/device_numbers.h"

namespace mt {
namespace {

using check::DeviceArray;

class SampleCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!check::has_gpu()) GTEST_SKIP() << "no GPU";
  }
};

// How likely a token is among all.
double score_of(std::span<const float> logits, std::int32_t token, double temperature) {
  if (temperature == 0) temperature = 1;
  double sum = 0;
  const double own = logits[static_cast<std::size_t>(token)];
  for (const double x : logits) sum += std::exp((x - own) / temperature);
  return -std::log(sum);
}

// `steps` tokens of each row, the logits staying what they are; two of three of which are scored.
std::vector<std::int32_t> on_gpu(const std::vector<float>& logits, std::vector<Choice> choices,
                                 int steps) {
  const std::size_t rows = choices.size(), vocab = logits.size() / rows;
  for (std::size_t i = 0; i < rows; ++i) choices[i].scored = i % 3 == 2 ? 0 : 1;
  const DeviceArray<float> device_logits(logits);
  const DeviceArray<double> scores(2 * rows);
  const DeviceArray<Choice> device_choices(choices);
  const DeviceArray<std::int32_t> tokens(rows), positions(std::vector<std::int32_t>(rows, 5)),
      lengths(std::vector<std::int32_t>(rows, 6)), shown(2 * rows);
  const DeviceArray<unsigned char> work(
      cuda::sample_work(std::ssize(choices), static_cast<std::int64_t>(vocab)));
  std::vector<std::int32_t> all;
  for (int step = 0; step < steps; ++step) {
    cuda::sample(tokens.data(), device_choices.data(), positions.data(), lengths.data(),
                 shown.data(), scores.data(), device_logits.data(), std::ssize(choices),
                 static_cast<std::int64_t>(vocab), work.data(), nullptr);
    check::check_cuda(cudaDeviceSynchronize());
    const auto got = tokens.values();
    all.insert(all.end(), got.begin(), got.end());
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t turn = (choices[i].place.token + static_cast<std::uint32_t>(step)) % 2;
      EXPECT_EQ(shown.values()[2 * i + turn], got[i]);
      if (choices[i].scored == 0 || got[i] < 0) continue;
      const double expected = score_of(std::span(logits).subspan(i * vocab, vocab), got[i],
                                       choices[i].rule.temperature);
      EXPECT_NEAR(scores.values()[2 * i + turn], expected, 1e-9 * (1 + std::abs(expected))) << i;
    }
  }
  for (std::size_t i = 0; i < rows; ++i) {
    choices[i].place.token += static_cast<std::uint32_t>(steps);
    EXPECT_EQ(device_choices.values()[i], choices[i]);
    EXPECT_EQ(positions.values()[i], 5 + steps);
    EXPECT_EQ(lengths.values()[i], 6 + steps);
  }
  return all;
}

std::vector<std::int32_t> on_cpu(const std::vector<float>& logits, std::vector<Choice> choices,
                                 int steps) {
  const std::size_t vocab = logits.size() / choices.size();
  std::vector<std::int32_t> all;
  for (int step = 0; step < steps; ++step)
    for (std::size_t i = 0; i < choices.size(); ++i) {
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>(i * vocab);
      all.push_back(cpu::sample(std::vector<double>(row, row + static_cast<std::ptrdiff_t>(vocab)),
                                choices[i]));
      ++choices[i].place.token;
    }
  return all;
}

std::vector<Choice> some_choices() {
  std::vector<Choice> choices;
  for (const Sampling& rule :
       {Sampling{}, Sampling{.temperature = 0}, Sampling{.top_k = 1}, Sampling{.top_k = 7},
        Sampling{.top_p = 0.9}, Sampling{.top_p = 0.3}, Sampling{.temperature = 0.5, .top_p = 0.99},
        Sampling{.temperature = 3, .top_k = 40, .top_p = 0.8}, Sampling{.top_p = 1e-9},
        Sampling{.temperature = 20, .top_k = 1000000, .seed = 99}})
    choices.push_back({rule, {.prompt = static_cast<std::uint32_t>(choices.size()), .sample = 2}});
  return choices;
}

TEST_F(SampleCuda, AsTheCpu) {
  for (const std::size_t vocab : {1, 2, 7, 31, 1000, 8191, 50257, 131075, 262144}) {
    const std::vector<Choice> choices = some_choices();
    std::vector<float> logits = check::random<float>(
        static_cast<std::int64_t>(vocab * choices.size()), static_cast<unsigned>(vocab), -9, 9);
    const int steps = vocab > 40000 ? 4 : 12;
    EXPECT_EQ(on_gpu(logits, choices, steps), on_cpu(logits, choices, steps)) << vocab;
    // Many equal ones, of either sign, and such as may not be drawn.
    for (float& x : logits) x = std::round(x / 3);
    for (std::size_t i = 0; i < logits.size(); i += 5)
      logits[i] = i % 2 == 0 ? -0.0f : -std::numeric_limits<float>::infinity();
    for (std::size_t i = 0; i < choices.size(); ++i) logits[i * vocab] = 1;
    EXPECT_EQ(on_gpu(logits, choices, steps), on_cpu(logits, choices, steps)) << vocab;
  }
}

TEST_F(SampleCuda, LogitsThatAreNotNumbers) {
  for (const float bad : {std::nanf(""), -std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> logits(30, 1.0f);
    logits[17] = bad;
    EXPECT_EQ(on_gpu(logits, {Choice{{.temperature = 0}, {}}, Choice{}}, 1).front(), 0);
    EXPECT_EQ(on_gpu(logits, {Choice{}, Choice{}}, 1).back(), -1);
  }
}

}  // namespace
}  // namespace mt
