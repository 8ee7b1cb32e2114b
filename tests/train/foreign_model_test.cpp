// Rows of the vocabulary that a model of others' has not, on ranks that have parts of them.
#include "train/run/foreign_model.h"

#include <gtest/gtest.h>

#include "tests/formats/convert_support.h"

namespace mt {
namespace {

class NewWords : public Convert {
 protected:
  void SetUp() override {
    write_hugging_face(scratch_.path("hf"), config_named("llama"), DType::f32);
  }

  // The embedding's part of a rank of `ranks`, of a run with 30 words.
  std::vector<float> part(int rank, int ranks) {
    ModelConfig more = config_named("llama");
    more.vocab_size = 30;
    more.padded_vocab_size = 32;
    const ParamTable table = model_rows(more, {.rank = rank, .ranks = ranks});
    for (const Param& row : table.rows()) {
      if (row.place.module != "word_embeddings") continue;
      const std::int64_t rows = row.shape[0] / ranks, width = row.shape[1];
      std::vector<float> numbers(static_cast<std::size_t>(rows * width), -1);
      read_part(*open_model(scratch_.path("hf")), row, more.vocab_size,
                {numbers.data(), DType::f32, {rows, width}});
      return numbers;
    }
    return {};
  }
};

TEST_F(NewWords, BeginAsTheMean) {
  const std::vector<float> all = part(0, 1);
  const std::size_t width = all.size() / 32;
  ASSERT_GT(width, 1U);
  for (std::size_t column = 0; column < width; ++column) {
    double sum = 0;
    for (std::size_t row = 0; row < 21; ++row) sum += double{all[row * width + column]};
    for (std::size_t row = 21; row < 30; ++row)
      EXPECT_EQ(all[row * width + column], static_cast<float>(sum / 21)) << row;
    for (std::size_t row = 30; row < 32; ++row) EXPECT_EQ(all[row * width + column], 0) << row;
  }
  std::vector<float> both = part(0, 2);
  const std::vector<float> second = part(1, 2);
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(both, all);
}

// A folder of Megatron Bridge's is one of its iterations; a run's own is none of others'.
TEST(FindForeignModel, OfBridges) {
  const Scratch scratch;
  const auto touch = [&](const std::string& name, const std::string& text = {}) {
    std::filesystem::create_directories(std::filesystem::path(scratch.path(name)).parent_path());
    File::create(scratch.path(name)).write(text);
  };
  for (const std::string iteration : {"iter_0000003", "iter_0000005"}) {
    touch("bridge/" + iteration + "/metadata.json");
    touch("bridge/" + iteration + "/run_config.yaml");
    touch("own/" + iteration + "/metadata.json");
  }
  for (const std::string folder : {"bridge/", "own/"})
    touch(folder + "latest_checkpointed_iteration.txt", "5");
  EXPECT_EQ(find_foreign_model(scratch.path("bridge"), {}), scratch.path("bridge/iter_0000005"));
  EXPECT_EQ(find_foreign_model(scratch.path("bridge"), 3), scratch.path("bridge/iter_0000003"));
  const std::string one = scratch.path("bridge/iter_0000003");
  EXPECT_EQ(find_foreign_model(one, {}), one);
  EXPECT_EQ(find_foreign_model(scratch.path("own"), {}), "");
  EXPECT_EQ(find_foreign_model(scratch.path("nothing"), {}), "");
  touch("other/run_config.yaml");
  EXPECT_NE(
      error_of([&] { find_foreign_model(scratch.path("other"), {}); }).find("Megatron Bridge"),
      std::string::npos);
  touch("hf/config.json");
  EXPECT_EQ(find_foreign_model(scratch.path("hf"), {}), scratch.path("hf"));
  EXPECT_EQ(error_of([&] { find_foreign_model(scratch.path("hf"), 3); }).substr(0, 2), "64");
}

}  // namespace
}  // namespace mt
