#include "data/samples/blend.h"

#include <gtest/gtest.h>

#include "data/files/indexed_dataset.h"
#include "data/samples/blended.h"
#include "data/samples/gpt_dataset.h"
#include "tests/data/support.h"
#include "text/null_tokenizer.h"

namespace mt {
namespace {

using Words = std::vector<std::string>;
using Weights = std::vector<double>;
using Ints = std::vector<std::int64_t>;

TEST(ParseBlend, PrefixesAloneOrWeightsBeforeThem) {
  const auto expect = [](const Words& words, const Words& prefixes, const Weights& weights) {
    const Blend blend = parse_blend("--data-path", words);
    EXPECT_EQ(blend.prefixes, prefixes);
    EXPECT_EQ(blend.weights, weights);
  };
  expect({"a"}, {"a"}, {});
  expect({"a", "b"}, {"a", "b"}, {});
  expect({" a ", "b\n", "c"}, {"a", "b", "c"}, {});
  expect({"1", "a"}, {"a"}, {1});
  expect({"30", "a", "7e1", "b"}, {"a", "b"}, {30, 70});
  expect({"+.5", "a", " 0.25 ", "a"}, {"a", "a"}, {0.5, 0.25});
  expect({"1", "2", "3"}, {"1", "2", "3"}, {});  // an odd number of words is no list of pairs
  expect({"a", "1"}, {"a", "1"}, {});
}

TEST(ParseBlend, WrongWeightsAreNamed) {
  const auto error = [](const Words& words) {
    return error_of([&] { parse_blend("--data-path", words); });
  };
  EXPECT_EQ(
      error({"0.3", "a", "x", "b"}),
      "64 --data-path: \"x\" before b is not a number, expected a weight before each prefix or "
      "before none");
  EXPECT_EQ(
      error({"x", "a", "0.3", "b"}),
      "64 --data-path: \"x\" before a is not a number, expected a weight before each prefix or "
      "before none");
  EXPECT_EQ(error({"0", "a", "0", "b"}), "64 --data-path: weight 0 of a: expected more than 0");
  EXPECT_EQ(error({"1", "a", "-2", "b"}), "64 --data-path: weight -2 of b: expected more than 0");
  EXPECT_EQ(error({"nan", "a"}), "64 --data-path: weight nan of a: expected more than 0");
  EXPECT_EQ(error({"1e308", "a", "1e308", "b"}), "64 --data-path: the weights sum to inf");
  EXPECT_EQ(error({"1", "a", "inf", "b"}), "64 --data-path: weight inf of b: expected more than 0");
  EXPECT_EQ(error({"a", " "}),
            "64 --data-path: expected prefixes of token files, or a weight before each");
}

TEST(BlendSizes, AreMegatrons) {
  const auto targets = [](double weight) {
    return Ints{blend_target(1000, weight), blend_target(100, weight), blend_target(10, weight)};
  };
  const auto builds = [](double weight) {
    return Ints{blend_build_size(1000, weight), blend_build_size(100, weight),
                blend_build_size(10, weight)};
  };
  EXPECT_EQ(targets(0.3), (Ints{300, 30, 3}));
  EXPECT_EQ(targets(0.7), (Ints{700, 70, 7}));
  EXPECT_EQ(builds(0.3), (Ints{302, 31, 4}));
  EXPECT_EQ(builds(0.7), (Ints{704, 71, 8}));
  EXPECT_EQ(targets(1.0 / 3), (Ints{334, 34, 4}));
  EXPECT_EQ(builds(1.0 / 3), (Ints{336, 35, 5}));
}

// Which datasets, and which of their samples.
std::pair<Ints, Ints> blended(const Weights& weights, const Ints& sizes, std::int64_t samples) {
  std::pair<Ints, Ints> result;
  Ints taken(weights.size());
  blend_samples(weights, sizes, samples, [&](std::size_t dataset) {
    result.first.push_back(static_cast<std::int64_t>(dataset));
    result.second.push_back(taken[dataset]++);
  });
  return result;
}

TEST(BlendSamples, InProportion) {
  const auto expect = [](const Weights& weights, const Ints& datasets, const Ints& samples) {
    EXPECT_EQ(blended(weights, {}, std::ssize(datasets)), std::pair(datasets, samples));
  };
  expect({.5, .3, .2}, {0, 1, 2, 0, 1, 0, 2, 0, 1, 0}, {0, 0, 0, 1, 1, 2, 1, 3, 2, 4});
  expect({.5, .25, .25}, {0, 1, 2, 0, 0, 1, 2, 0}, {0, 0, 0, 1, 2, 1, 1, 3});
  expect({1.0 / 3, 1.0 / 3, 1.0 / 3}, {0, 1, 2, 0, 1, 2, 0, 1, 2}, {0, 0, 0, 1, 1, 1, 2, 2, 2});
  expect({.7, .3}, {0, 1, 0, 0, 1, 0, 0, 1, 0, 0}, {0, 0, 1, 2, 1, 3, 4, 2, 5, 6});
  expect({.1, .9}, {1, 0, 1, 1, 1, 1, 1, 1, 1, 1}, {0, 0, 1, 2, 3, 4, 5, 6, 7, 8});
  expect({.75, .25}, {0, 1, 0, 0, 0, 1, 0, 0}, {0, 0, 1, 2, 3, 1, 4, 5});
}

TEST(BlendSamples, EachOnce) {
  const auto expect = [](const Ints& sizes, const Ints& datasets, const Ints& samples) {
    Weights weights;
    for (const std::int64_t size : sizes)
      weights.push_back(static_cast<double>(size) / static_cast<double>(std::ssize(datasets)));
    EXPECT_EQ(blended(weights, sizes, std::ssize(datasets)), std::pair(datasets, samples));
  };
  expect({3, 1, 2}, {0, 2, 1, 0, 2, 0}, {0, 0, 0, 1, 1, 2});
  expect({2, 5}, {1, 0, 1, 1, 0, 1, 1}, {0, 0, 1, 2, 1, 3, 4});
  expect({4, 4}, {0, 1, 0, 1, 0, 1, 0, 1}, {0, 0, 1, 1, 2, 2, 3, 3});
}

// Three files whose tokens say which file they are of.
class Blends : public testing::Test {
 protected:
  Blends() {
    for (std::int32_t file = 0; file < 3; ++file) {
      const std::string prefix = scratch_.path(std::to_string(file));
      write_documents(prefix, TokenType::u16, Documents(10, std::vector<std::int32_t>(13, file)));
      files_.push_back(std::make_unique<IndexedDataset>(prefix));
    }
  }
  Blended::Datasets datasets(const std::vector<std::optional<std::int64_t>>& samples) const {
    Blended::Datasets result;
    for (std::size_t i = 0; i < samples.size(); ++i)
      result.push_back(std::make_unique<GptDataset>(
          *files_[i],
          GptDatasetOptions{
              .index = {.sequences = {0, 10}, .seq_length = 8, .num_samples = samples[i]}}));
    return result;
  }
  Blended blended(const std::vector<std::optional<std::int64_t>>& samples,
                  std::vector<double> weights, std::int64_t count,
                  const IndexCache& cache = {}) const {
    return Blended(datasets(samples), {.weights = std::move(weights), .samples = count}, cache);
  }
  static std::int32_t file_of(const Blended& data, std::int64_t k) {
    std::vector<std::int32_t> tokens(8), labels(8), positions(8);
    std::vector<float> mask(8);
    Fields sample;
    for (const auto& [field, values] :
         {std::pair(Field::ids, &tokens), {Field::labels, &labels}, {Field::positions, &positions}})
      sample[field] = Tensor(values->data(), DType::i32, {8});
    sample[Field::loss_mask] = Tensor(mask.data(), DType::f32, {8});
    data.get(k, sample);
    return tokens.front();
  }

  Scratch scratch_;
  std::vector<std::unique_ptr<IndexedDataset>> files_;
};

TEST_F(Blends, ReadFromTheirDatasets) {
  const Blended data = blended({6, 4, 3}, {5, 3, 2}, 10);
  ASSERT_EQ(data.size(), 10);
  const NullTokenizer words(1000);
  const Ints expected = {0, 1, 2, 0, 1, 0, 2, 0, 1, 0}, samples = {0, 0, 0, 1, 1, 2, 1, 3, 2, 4};
  for (std::int64_t k = 0; k < 10; ++k) {
    const auto at = static_cast<std::size_t>(k);
    const auto file = static_cast<std::size_t>(expected[at]);
    EXPECT_EQ(file_of(data, k), expected[at]);
    EXPECT_EQ(data.index().place(k), (BlendIndex::Place{file, samples[at]}));
    EXPECT_EQ(data.lines(k, words), data.datasets()[file]->lines(samples[at], words));
    EXPECT_TRUE(data.lines(k, words).front().starts_with(files_[file]->name() + ", document "));
  }
  EXPECT_EQ(data.indexes().files, 3);
  EXPECT_EQ(data.indexes().made, 4);  // and that of the blend
}

TEST_F(Blends, AloneADatasetKeepsItsOrder) {
  const Blended data(datasets({6}), {.alone = true});
  EXPECT_EQ(data.size(), 16);
  EXPECT_EQ(data.index().place(5), (BlendIndex::Place{0, 5}));
  EXPECT_TRUE(data.index().dataset_index().empty());
  EXPECT_EQ(data.indexes().made, 1);
}

TEST_F(Blends, WithoutSamplesEverySampleComesOnce) {
  const Blended data(datasets({1, 1}), {});
  ASSERT_EQ(data.size(), 32);
  Ints taken(2);
  for (std::int64_t k = 0; k < 32; ++k) {
    const BlendIndex::Place at = data.index().place(k);
    EXPECT_EQ(at.sample, taken[at.dataset]++);
  }
  EXPECT_EQ(taken, (Ints{16, 16}));
}

// Without weights there are as many of each as it has, and no more in all.
TEST_F(Blends, WithoutWeightsTheSizesAreThem) {
  EXPECT_EQ(Blended(datasets({1, 1}), {.samples = 10}).size(), 10);
  EXPECT_EQ(Blended(datasets({1, 1}), {.samples = 100}).size(), 32);
}

TEST_F(Blends, TheCacheGivesTheSame) {
  const IndexCache cache(scratch_.path("cache"), {});
  const Blended made = blended({6, 4}, {.7, .3}, 10), kept = blended({6, 4}, {.7, .3}, 10, cache),
                mapped = blended({6, 4}, {.7, .3}, 10, cache),
                other = blended({6, 4}, {.6, .4}, 10, cache);
  for (std::int64_t k = 0; k < 10; ++k) {
    EXPECT_EQ(kept.index().place(k), made.index().place(k));
    EXPECT_EQ(mapped.index().place(k), made.index().place(k));
  }
  EXPECT_EQ(mapped.indexes().found, 1);  // datasets have no cache here
  EXPECT_EQ(other.index().place(9), (BlendIndex::Place{0, 5}));
}

TEST_F(Blends, MoreThanADatasetHasIsAnError) {
  EXPECT_EQ(error_of([&] {
              blended({6, 4}, {.5, .5}, 40);
            }),
            concat("78 ", scratch_.path("0"), ": the blend takes 20 samples of it, it has 16"));
  EXPECT_EQ(error_of([&] {
              blended({6, 4}, {1, 0}, 4);
            }),
            concat("78 ", scratch_.path("1"), ": gives a blend 0 samples, expected at least one"));
}

// How many samples a set has, and what each of its files is made to have.
TEST(BlendPlan, SamplesOfASet) {
  const BlendPlan one = plan_blend({{"a"}, {}}, 7), weighted = plan_blend({{"a"}, {3}}, 7),
                  counted_alone = plan_blend({{"a"}, {3}}, 7, false),
                  two = plan_blend({{"a", "b"}, {1, 3}}, 1000),
                  all = plan_blend({{"a", "b"}, {}}, 1000);
  using Each = std::vector<std::optional<std::int64_t>>;
  EXPECT_TRUE(one.alone && counted_alone.alone && !weighted.alone && !two.alone && !all.alone);
  EXPECT_EQ(one.each, Each{7});
  EXPECT_EQ(counted_alone.each, Each{7});
  EXPECT_EQ(weighted.each, Each{8});
  EXPECT_EQ(two.weights, (std::vector<double>{0.25, 0.75}));
  EXPECT_EQ(two.each, (Each{252, 754}));
  EXPECT_EQ(two.samples, 1000);
  EXPECT_EQ(all.each, (Each{std::nullopt, std::nullopt}));
  EXPECT_EQ(all.samples, 1000);
}

}  // namespace
}  // namespace mt
