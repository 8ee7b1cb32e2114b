// What a conversion leaves on the disk: its output whole, or nothing.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "formats/convert.h"
#include "tests/formats/convert_support.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

TEST_F(Convert, DamageOfTheSourceLeavesNothing) {  // it is found while the tensors are read
  write_hugging_face(scratch_.path("hf"), config_named("llama"), DType::f32);
  convert("hf", "core", "core");
  const std::string path = scratch_.path("core/release/__0_2.distcp"), whole = read_file(path);
  for (const std::size_t at : {std::size_t{1300}, whole.size() / 2, whole.size() - 1}) {
    std::string damaged = whole;
    damaged[at] ^= 1;
    std::ofstream(path, std::ios::binary) << damaged;
    for (const char* saver : {"core", "hf"}) {
      EXPECT_NE(error("core", "out", saver).find("__0_2.distcp: "), std::string::npos) << at;
      EXPECT_FALSE(fs::exists(scratch_.path("out/release"))) << at;
      EXPECT_FALSE(fs::exists(scratch_.path("out/config.json"))) << at;
    }
  }
}

TEST_F(Convert, NothingIsReplacedUnasked) {
  write_hugging_face(scratch_.path("hf"), config_named("gpt2"), DType::f32);
  convert("hf", "core", "core");
  convert("core", "back", "hf");
  for (const char* saver : {"core", "hf"})
    EXPECT_EQ(error("hf", "back", saver),
              concat("73 ", scratch_.path("back"), ": exists; --force replaces what it holds"));
  ConvertOptions options;
  options.force = true;
  EXPECT_EQ(error("core", "back", "hf", options), "");
  EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors"));
  fs::create_directory(scratch_.path("parent"));
  fs::rename(scratch_.path("back"), scratch_.path("parent/back"));
  EXPECT_EQ(error("parent/back", "parent", "hf", options),
            concat("64 --force: would remove ", scratch_.path("parent/back"), ", which lies in ",
                   scratch_.path("parent")));
  EXPECT_EQ(error("parent/back", "parent", "core", options), "");
  EXPECT_TRUE(fs::exists(scratch_.path("parent/back/model.safetensors")));
  EXPECT_EQ(error("parent/back", "parent/back", "hf", options), "");
}

TEST_F(Convert, OutputMayBeALink) {
  write_hugging_face(scratch_.path("hf"), config_named("gpt2"), DType::f32);
  fs::create_directory(scratch_.path("empty"));
  for (const char* folder : {"empty", "new"}) {
    const std::string link = scratch_.path("link");
    fs::create_symlink(folder, link);
    convert("hf", "link", "hf");
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_TRUE(fs::exists(scratch_.path(folder) + "/config.json"));
    fs::remove(link);
  }
}

TEST_F(Convert, WhatComesMeanwhileStays) {
  write_hugging_face(scratch_.path("hf"), config_named("gpt2"), DType::f32);
  for (const char* saver : {"core", "hf", "gguf"}) {
    const std::string out = scratch_.path("out"),
                      taken = out + (saver == std::string("core") ? "/release" : "");
    ConvertOptions options;
    options.load = scratch_.path("hf");
    options.save = out;
    options.saver = saver;
    const auto run = [&] {
      options.complete();
      convert_checkpoint(options, Log({.level = Log::Level::quiet}), [&] {
        fs::create_directories(taken);
        File::create(taken + "/precious");
      });
    };
    EXPECT_EQ(error_of(run),
              concat("73 ", taken, ": cannot rename into place: Directory not empty"));
    EXPECT_TRUE(fs::exists(taken + "/precious"));
    EXPECT_EQ(std::distance(fs::directory_iterator(taken), {}), 1);
    options.force = true;
    EXPECT_EQ(error_of(run), "");
    EXPECT_FALSE(fs::exists(taken + "/precious"));
    fs::remove_all(out);
  }
}

// What was written is damaged before the first row is read back.
TEST_F(Convert, WhatIsNotReadBackGetsNoName) {
  const ModelConfig config = config_named("llama");
  write_hugging_face(scratch_.path("hf"), config, DType::f32);
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"core", "__0_0.distcp"}, {"hf", "model.safetensors"}, {"gguf", "model.gguf"}};
  for (const auto& [saver, name] : cases) {
    ConvertOptions options;
    options.load = scratch_.path("hf");
    options.save = scratch_.path("out");
    options.saver = saver;
    options.verify = true;
    options.complete();
    std::size_t rows_left = model_rows(config).rows().size();
    std::string damaged;
    const auto check = [&] {
      if (rows_left-- > 0) return;
      for (const auto& entry : fs::recursive_directory_iterator(scratch_.path("")))
        if (entry.path().filename() == name && entry.path().parent_path() != options.load)
          damaged = entry.path();
      std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
      const auto half = static_cast<std::streamoff>(fs::file_size(damaged) / 2);
      file.seekp(half) << std::string(static_cast<std::size_t>(half), '\0');
    };
    const std::string error =
        error_of([&] { convert_checkpoint(options, Log({.level = Log::Level::quiet}), check); });
    EXPECT_NE(damaged.find(".tmp."), std::string::npos) << saver;
    EXPECT_TRUE(error.starts_with("1 ") || error.starts_with("65 ")) << saver << ": " << error;
    EXPECT_FALSE(fs::exists(damaged)) << saver;
    EXPECT_FALSE(fs::exists(options.save)) << saver;
  }
}

}  // namespace
}  // namespace mt
