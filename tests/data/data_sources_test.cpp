#include "data/samples/data_sources.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/data/support.h"

namespace mt {
namespace {

using Words = std::vector<std::string>;

std::string error(const DataSourceOptions& options) {
  return error_of([&] { read_sources(options); });
}

TEST(DataSources, OneBlendIsCutBySplit) {
  const DataSources plain = read_sources({.data_path = {"a"}});
  EXPECT_EQ(plain.blend->prefixes, (Words{"a"}));
  EXPECT_EQ(plain.split, "969, 30, 1");
  EXPECT_TRUE(plain.split_is_default);
  const DataSources blend =
      read_sources({.data_path = {"1", "a", "2", "b", "3", "a"}, .split = "8,1,1"});
  EXPECT_EQ(blend.blend->weights, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(blend.split, "8,1,1");
  EXPECT_FALSE(blend.split_is_default);
  EXPECT_EQ(blend.prefixes(), (Words{"a", "b"}));
}

TEST(DataSources, ABlendForEachSplit) {
  const DataSources sources = read_sources({.split_paths = {Words{"t"}, {"2", "v", "1", "w"}, {}}});
  EXPECT_FALSE(sources.blend);
  EXPECT_EQ(sources.split_blends[0]->prefixes, (Words{"t"}));
  EXPECT_EQ(sources.split_blends[1]->weights, (std::vector<double>{2, 1}));
  EXPECT_FALSE(sources.split_blends[2]);
  EXPECT_EQ(sources.prefixes(), (Words{"t", "v", "w"}));
}

TEST(DataSources, FilesHoldWhatTheOptionsWould) {
  const Scratch scratch;
  const std::string args = scratch.path("args"), json = scratch.path("json");
  write_file_atomically(args, "0.3 a\n0.7\tb\n", true);
  const DataSources blend = read_sources({.data_args_path = args, .split = "9,1,0"});
  EXPECT_EQ(blend.blend->prefixes, (Words{"a", "b"}));
  EXPECT_EQ(blend.blend->weights, (std::vector<double>{0.3, 0.7}));
  EXPECT_EQ(error({.data_args_path = args}), "64 --data-args-path: needs --split");
  write_file_atomically(args, "0.3 a x b", true);
  EXPECT_EQ(error({.data_args_path = args, .split = "1"}),
            concat("64 ", args,
                   ": \"x\" before b is not a number, expected a weight before each "
                   "prefix or before none"));
  write_file_atomically(args, "", true);
  EXPECT_EQ(error({.data_args_path = args, .split = "1"}),
            concat("64 ", args, ": expected prefixes of token files, or a weight before each"));

  write_file_atomically(json, R"({"train":["2","a","3","b"],"valid":"c d e","test":null})", true);
  const DataSources split = read_sources({.per_split_data_args_path = json});
  EXPECT_EQ(split.split_blends[0]->weights, (std::vector<double>{2, 3}));
  EXPECT_EQ(split.split_blends[1]->prefixes, (Words{"c", "d", "e"}));
  EXPECT_FALSE(split.split_blends[2]);
  const auto json_error = [&](const char* text) {
    write_file_atomically(json, text, true);
    return error({.per_split_data_args_path = json});
  };
  EXPECT_EQ(json_error(R"({"train":["a"],"valid":null})"),
            concat("65 ", json, ": \"test\" is missing, expected it to be null at least"));
  EXPECT_EQ(json_error(R"({"train":["a",1],"valid":null,"test":null})"),
            concat("65 ", json, ": \"train\": expected a list of strings, a string or null"));
  EXPECT_EQ(json_error(R"({"train":null,"valid":"a","test":null})"),
            "64 --per-split-data-args-path: names nothing to train on, expected --train-data-path "
            "or \"train\"");
  EXPECT_EQ(json_error("[1"), concat("65 ", json, ": byte 2: ",
                                     "The JSON document has an improper structure: missing or "
                                     "superfluous commas, braces, missing keys, etc."));
  EXPECT_EQ(json_error("data: a"),
            concat("65 ", json, ": is no JSON, expected an object of lists"));
  EXPECT_EQ(json_error("[1]"), concat("65 ", json, ": expected a JSON object"));
  EXPECT_EQ(error({.per_split_data_args_path = scratch.path("none")}),
            concat("66 ", scratch.path("none"), ": cannot open: No such file or directory"));
}

TEST(DataSources, MadeUpTextIsCutInThree) {
  const DataSources sources = read_sources({.mock_data = true});
  EXPECT_TRUE(sources.mock);
  EXPECT_EQ(sources.split, "1,1,1");
  EXPECT_TRUE(sources.prefixes().empty());
}

TEST(DataSources, ThereIsExactlyOne) {
  const std::string one = ": expected a single source of data";
  EXPECT_EQ(error({}), "64 --data-path: required, or another source of data");
  EXPECT_EQ(error({.data_path = {"a"}, .mock_data = true}), "64 --data-path, --mock-data" + one);
  EXPECT_EQ(error({.data_path = {"a"}, .split_paths = {Words{}, {"v"}, {}}}),
            "64 --data-path, --valid-data-path" + one);
  EXPECT_EQ(error({.data_path = {"a"}, .data_args_path = "x"}),
            "64 --data-path, --data-args-path" + one);
  EXPECT_EQ(error({.split_paths = {Words{"t"}, {}, {}}, .per_split_data_args_path = "x"}),
            "64 --train-data-path, --per-split-data-args-path" + one);
  EXPECT_EQ(error({.split_paths = {Words{}, {"v"}, {}}}),
            "64 --valid-data-path: names nothing to train on, expected --train-data-path or "
            "\"train\"");
  EXPECT_EQ(error({.split_paths = {Words{"t"}, {}, {}}, .split = "1"}),
            "64 --split: divides --data-path, not --train-data-path");
}

// As Megatron-LM's BlendedMegatronDatasetConfig does, whatever --split says.
TEST(DataSources, MadeUpTextIsDividedEvenly) {
  EXPECT_EQ(read_sources({.mock_data = true, .split = "'99,1,0'"}).split, "1,1,1");
  EXPECT_EQ(read_sources({.mock_data = true}).split, "1,1,1");
}

}  // namespace
}  // namespace mt
