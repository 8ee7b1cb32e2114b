#include "retro/project.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/base/scratch.h"

namespace mt {
namespace {

TEST(IndentedJson, IsPythons) {
  EXPECT_EQ(indented_json(R"([{"a":1.0,"b":["x, {y}: \"z\" \\",null]},{},[]])"),
            "[\n    {\n        \"a\": 1.0,\n        \"b\": [\n            \"x, {y}: \\\"z\\\" "
            "\\\\\",\n            null\n        ]\n    },\n    {},\n    []\n]");
}

TEST(RetroProject, KeepsWhatOthersSet) {
  const Scratch folder;
  EXPECT_EQ(error_of([&] { RetroProject{folder.path("")}; }).substr(0, 3), "66 ");
  std::filesystem::create_directory(folder.path("data"));
  const RetroProject project(folder.path(""));
  write_file_atomically(folder.path("config.json"),
                        R"({"retro_neighbor_dirs": {"train": "a"}, "retro_gpt_seed": 3})", false);
  project.add_settings({{"retro_gpt_chunk_length", "64"}}, false);
  const std::string content = read_file(folder.path("config.json"));
  EXPECT_TRUE(content.starts_with("{\n    \"retro_bert_tokenizer_type\": null,\n")) << content;
  EXPECT_NE(content.find("    \"retro_gpt_chunk_length\": 64,\n"), std::string::npos) << content;
  EXPECT_NE(content.find("    \"retro_gpt_seed\": 3,\n"), std::string::npos) << content;
  EXPECT_TRUE(
      content.ends_with("    \"retro_neighbor_dirs\": {\n        \"train\": \"a\"\n    }\n}"))
      << content;
  project.add_settings({{"retro_gpt_chunk_length", "64"}}, false);
  EXPECT_EQ(
      error_of([&] {
        project.add_settings({{"retro_gpt_chunk_length", "32"}}, false);
      }),
      "78 " + folder.path("config.json") +
          ": retro_gpt_chunk_length: is 64 in this project, and 32 now; --force makes it anew");
  EXPECT_EQ(read_file(folder.path("config.json")), content);
  project.add_settings({{"retro_gpt_chunk_length", "32"}}, true);
  EXPECT_NE(read_file(folder.path("config.json")).find("chunk_length\": 32"), std::string::npos);
  write_file_atomically(folder.path("config.json"), "{", true);
  EXPECT_EQ(error_of([&] { project.add_settings({}, false); }).substr(0, 3), "65 ");
}

}  // namespace
}  // namespace mt
