// What a conversion leaves on the disk: its output whole, or nothing.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "ckpt/folder_files.h"
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

constexpr const char* kWords = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
constexpr const char* kSavers[] = {"core", "legacy", "hf", "meta", "gguf"};

class ConvertOver : public Convert {
 protected:
  ConvertOver() {
    write_hugging_face(scratch_.path("hf"), config_named("llama"), DType::f32);
    force_.force = true;
  }
  std::string error(const std::string& from, const std::string& to, const std::string& saver,
                    const std::string& ckpt_format = "torch_dist") {
    ConvertOptions options = force_;
    options.ckpt_format = ckpt_format;
    return Convert::error(from, to, saver, options);
  }
  void write(const std::string& name, const std::string& text = "mine") const {
    fs::create_directories(fs::path(scratch_.path(name)).parent_path());
    std::ofstream(scratch_.path(name)) << text;
  }
  // What a folder and those in it hold.
  std::map<std::string, std::string> contents(const std::string& folder) const {
    std::map<std::string, std::string> found;
    for (const std::string& name : files_below(scratch_.path(folder)))
      if (fs::is_regular_file(scratch_.path(folder + "/" + name)))
        found[name] = read_file(scratch_.path(folder + "/" + name));
    return found;
  }
  // No conversion to this OUTPUT comes about, and INPUT stays as it is.
  void expect_refused(const std::string& from, const std::string& to, const std::string& saver,
                      const std::string& holds_input) {
    const auto before = contents(holds_input);
    const std::string found = error(from, to, saver);
    EXPECT_TRUE(found.starts_with("64 OUTPUT " + scratch_.path(to) + ": ")) << found;
    EXPECT_NE(found.find("INPUT " + scratch_.path(from)), std::string::npos) << found;
    EXPECT_EQ(contents(holds_input), before) << saver << " " << from << " " << to;
  }
  ConvertOptions force_;
};

TEST_F(ConvertOver, NothingIsReplacedUnasked) {
  convert("hf", "core", "core");
  convert("core", "back", "hf");
  for (const char* saver : kSavers)
    EXPECT_EQ(Convert::error("hf", "back", saver),
              concat("73 ", scratch_.path("back"),
                     ": exists; --force replaces a model's files there, and no others"));
  EXPECT_EQ(error("core", "back", "hf"), "");
  EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors"));
}

TEST_F(ConvertOver, FilesOfOthersStay) {
  for (const char* saver : kSavers) {
    for (const char* name : {"README.md", ".git/HEAD", "sub/config.json", "pytorch_model.bin",
                             "model.safetensors.bak", "tiny-q8.gguf", "original/params.json"})
      write(concat("out/", name));
    fs::create_directory(scratch_.path("out/empty"));
    fs::create_symlink("../hf", scratch_.path("out/link"));
    const auto before = contents("out");
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(error("hf", "out", saver), "") << saver;
      const auto after = contents("out");
      EXPECT_GT(after.size(), before.size());
      for (const auto& [name, text] : before) EXPECT_EQ(after.at(name), text) << saver << name;
      EXPECT_TRUE(fs::is_directory(scratch_.path("out/empty")));
      EXPECT_TRUE(fs::is_symlink(scratch_.path("out/link")));
    }
    EXPECT_EQ(scratch_.entries(), 2U) << saver;
    if (saver != std::string("gguf") && saver != std::string("legacy")) {
      EXPECT_EQ(error("out", "back", "hf"), "") << saver;
      EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors")) << saver;
      fs::remove_all(scratch_.path("back"));
    }
    fs::remove_all(scratch_.path("out"));
  }
}

TEST_F(ConvertOver, FilesOfTheFormerModelGo) {
  for (const bool shared : {false, true}) {
    for (const char* name : {"config.json", "generation_config.json", "model.safetensors",
                             "model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors",
                             "model.safetensors.index.json", "tokenizer.json", "vocab.txt"})
      write(concat("out/", name), "old");
    if (shared) write("out/README.md");
    write("hf/vocab.txt", kWords);
    EXPECT_EQ(error("hf", "out", "hf"), "");
    std::vector<std::string> expected = {"config.json", "model.safetensors", "vocab.txt"};
    if (shared) expected.insert(expected.begin(), "README.md");
    EXPECT_EQ(files_below(scratch_.path("out")), expected);
    EXPECT_EQ(content("out/vocab.txt"), kWords);
    fs::remove_all(scratch_.path("out"));
  }
  for (const char* name : {"params.json", "consolidated.00.pth", "consolidated.01.pth", "notes"})
    write(concat("out/", name), "old");
  EXPECT_EQ(error("hf", "out", "meta"), "");
  EXPECT_FALSE(fs::exists(scratch_.path("out/consolidated.01.pth")));
  EXPECT_EQ(content("out/notes"), "old");
}

TEST_F(ConvertOver, TokenizerStaysBesideAModelThatBringsNone) {
  write("out/tokenizer.json", "theirs");
  write("out/model.safetensors.index.json", "old");
  testing::internal::CaptureStderr();
  ConvertOptions options = force_;
  options.load = scratch_.path("hf");
  options.save = scratch_.path("out");
  options.saver = "hf";
  options.complete();
  convert_checkpoint(options, Log({.program = "mt-convert"}), [] {});
  EXPECT_NE(testing::internal::GetCapturedStderr().find(
                "out: its tokenizer (tokenizer.json) stays: " + options.load + " brings none"),
            std::string::npos);
  EXPECT_EQ(content("out/tokenizer.json"), "theirs");
  EXPECT_FALSE(fs::exists(scratch_.path("out/model.safetensors.index.json")));
}

TEST_F(ConvertOver, InputIsNeverOutput) {
  write("hf/README.md");
  fs::create_symlink("hf", scratch_.path("link"));
  for (const char* saver : kSavers)
    for (const char* same : {"hf", "hf/", "./hf", "hf/../hf", "link", "link/"}) {
      expect_refused("hf", same, saver, "hf");
      expect_refused("link", same, saver, "hf");
    }
  EXPECT_EQ(scratch_.entries(), 2U);
}

TEST_F(ConvertOver, CheckpointsOfInputAreNeverReplaced) {
  convert("hf", "core", "core");
  fs::create_symlink("core", scratch_.path("link"));
  for (const char* saver : kSavers) {
    expect_refused("core", "core", saver, "core");
    expect_refused("link", "core", saver, "core");
    expect_refused("core/release", "core/release", saver, "core");
    expect_refused("core", "core/release", saver, "core");
  }
  for (const char* saver : {"core", "legacy"})
    expect_refused("core/release", "core", saver, "core");
  fs::create_directory_symlink("core/release", scratch_.path("release"));
  expect_refused("release", "core", "core", "core");
  // Its tokenizer is INPUT's too.
  write("hf/vocab.txt", kWords);
  convert("hf", "core2", "core");
  expect_refused("core2", "core2/release/tokenizer", "hf", "core2");
}

TEST_F(ConvertOver, WhatInputsLinksLeadToIsNeverReplaced) {
  convert("hf", "out", "hf");
  fs::create_directory(scratch_.path("links"));
  for (const char* name : {"config.json", "model.safetensors"})
    fs::create_symlink(concat("../out/", name), scratch_.path(concat("links/", name)));
  expect_refused("links", "out", "hf", "out");
  fs::create_directory(scratch_.path("twice"));  // by way of a link in OUTPUT to a third folder
  fs::rename(scratch_.path("out/model.safetensors"), scratch_.path("twice/blob"));
  fs::create_symlink("../twice/blob", scratch_.path("out/model.safetensors"));
  expect_refused("links", "out", "hf", "out");
  EXPECT_EQ(error("links", "out", "gguf"), "");  // beside it
  EXPECT_EQ(error("hf", "out", "hf"), "");       // of which only the link goes
  EXPECT_EQ(content("twice/blob"), content("hf/model.safetensors"));
}

TEST_F(ConvertOver, InputInAnotherPlaceOfOutputStays) {
  write("hf/notes");
  convert("hf", "out/sub/model", "hf");
  const auto before = contents("out/sub/model");
  for (const char* saver : kSavers) {
    EXPECT_EQ(error("out/sub/model", "out/sub", saver), "") << saver;
    EXPECT_EQ(contents("out/sub/model"), before) << saver;
    EXPECT_EQ(error("hf", "hf/converted", saver), "") << saver;
    EXPECT_EQ(content("hf/notes"), "mine") << saver;
    fs::remove_all(scratch_.path("hf/converted"));
    fs::rename(scratch_.path("out/sub/model"), scratch_.path("model"));
    fs::remove_all(scratch_.path("out/sub"));
    fs::create_directories(scratch_.path("out/sub"));
    fs::rename(scratch_.path("model"), scratch_.path("out/sub/model"));
  }
}

TEST_F(ConvertOver, GgufFileThatIsInput) {
  convert("hf", "out", "gguf");
  expect_refused("out/model.gguf", "out", "gguf", "out");
  expect_refused("out", "out", "hf", "out");
  fs::create_symlink("out/model.gguf", scratch_.path("link.gguf"));
  expect_refused("link.gguf", "out", "gguf", "out");
  fs::copy_file(scratch_.path("out/model.gguf"), scratch_.path("out/tiny.gguf"));
  const std::string tiny = content("out/tiny.gguf");
  for (const char* saver : {"gguf", "hf"}) {
    EXPECT_EQ(error("out/tiny.gguf", "out", saver), "");
    EXPECT_EQ(content("out/tiny.gguf"), tiny);
  }
  write("file.gguf");
  EXPECT_EQ(error("hf", "file.gguf", "gguf"),
            concat("73 ", scratch_.path("file.gguf"), ": is a file, expected a folder or nothing"));
  EXPECT_EQ(content("file.gguf"), "mine");
}

TEST_F(ConvertOver, AModelOfAnotherKindIsNotHidden) {  // whose files --force does not replace
  convert("hf", "core", "core");
  const auto before = contents("core");
  for (const char* saver : {"hf", "meta"})
    EXPECT_EQ(error("hf", "core", saver),
              concat("73 ", scratch_.path("core"),
                     ": would still be read by its latest_checkpointed_iteration.txt, which "
                     "--force does not replace; expected another folder"));
  EXPECT_EQ(contents("core"), before);
  convert("hf", "other", "hf");
  EXPECT_EQ(error("hf", "other", "meta"),
            concat("73 ", scratch_.path("other"),
                   ": would still be read by its config.json, which --force does not replace; "
                   "expected another folder"));
  for (const char* saver : {"gguf", "core"}) {  // beside each other both are whole
    EXPECT_EQ(error("hf", "other", saver), "");
    EXPECT_EQ(content("other/model.safetensors"), content("hf/model.safetensors"));
  }
}

TEST_F(ConvertOver, OtherCheckpointsStay) {
  for (const char* format : {"torch_dist", "torch", "torch_dcp"}) {
    write("ckpt/iter_0000060/common.pt", "another");
    write("ckpt/iter_0000060/notes");
    write("ckpt/run.jsonl");
    write("ckpt/latest_checkpointed_iteration.txt", "60");
    write("ckpt/release/notes");
    write("ckpt/release/__9_9.distcp", "of the former model");
    EXPECT_EQ(error("hf", "ckpt", "core", format), "") << format;
    EXPECT_EQ(content("ckpt/latest_checkpointed_iteration.txt"), "release");
    EXPECT_EQ(content("ckpt/iter_0000060/common.pt"), "another");
    for (const char* mine : {"ckpt/iter_0000060/notes", "ckpt/run.jsonl", "ckpt/release/notes"})
      EXPECT_EQ(content(mine), "mine") << mine;
    EXPECT_FALSE(fs::exists(scratch_.path("ckpt/release/__9_9.distcp"))) << format;
    EXPECT_EQ(error("ckpt", "back", "hf"), "") << format;
    EXPECT_EQ(content("back/model.safetensors"), content("hf/model.safetensors"));
    fs::remove_all(scratch_.path("ckpt"));
  }
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
    EXPECT_TRUE(fs::exists(taken + "/precious"));
    EXPECT_GT(std::distance(fs::directory_iterator(taken), {}), 1);
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
