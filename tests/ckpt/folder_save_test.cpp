// What a save replaces in a folder that others use too, and what it leaves alone.
#include "ckpt/folder_save.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/base/scratch.h"
#include "tests/ckpt/support.h"

namespace mt {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::write_whole;

// A model of these tests: model-#-of-#.bin, and config.json, its key.
FolderFiles sample_files() {
  const OwnFile own = [](const std::string& name) {
    return name == "config.json" || has_form(name, "model-#-of-#.bin") ||
           name == "tokenizer/vocab.txt";
  };
  return {.own = [own](const std::string&) { return own; }, .keys = {"config.json"}};
}

class Folders : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return scratch_.path(name); }

  void write(const std::string& name, const std::string& content) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    write_whole(path(name), content);
  }
  // A model of so many parts, whose files all hold `content`.
  void write_model(const std::string& folder, int parts, const std::string& content) const {
    for (int i = 1; i <= parts; ++i)
      write(concat(folder, "/model-", i, "-of-", parts, ".bin"), content);
    write(folder + "/config.json", content);
  }
  void save(const std::string& name, int parts, const std::string& content) const {
    FolderSave save(path(name), sample_files());
    const std::string folder = fs::path(save.folder()).filename().string();
    write_model(folder, parts, content);
    write(folder + "/tokenizer/vocab.txt", content);
    save.publish();
  }
  std::vector<std::string> names(const std::string& folder) const {
    return files_below(path(folder));
  }
  std::string content(const std::string& name) const { return read_file(path(name)); }

  Scratch scratch_;
};

TEST(HasForm, DigitsAndAllElseAsItIs) {
  EXPECT_TRUE(has_form("model-00001-of-00002.safetensors", "model-#####-of-#####.safetensors"));
  EXPECT_TRUE(has_form("model-100001-of-100002.safetensors", "model-#####-of-#####.safetensors"));
  EXPECT_TRUE(has_form("__0_12.distcp", "__#_#.distcp"));
  for (const char* other :
       {"model-1-of-2.safetensors", "model-00001-of-00002.safetensors.bak",
        "my-model-00001-of-00002.safetensors", "model-0000x-of-00002.safetensors",
        "model-00001-of-.safetensors", "model-00001", "", "model.safetensors"})
    EXPECT_FALSE(has_form(other, "model-#####-of-#####.safetensors")) << other;
}

TEST_F(Folders, AModelOfItsOwnIsReplacedAtOnce) {
  save("out", 3, "old");
  struct stat before, after;
  ASSERT_EQ(::stat(path("out").c_str(), &before), 0);
  save("out", 1, "new");
  ASSERT_EQ(::stat(path("out").c_str(), &after), 0);
  EXPECT_NE(before.st_ino, after.st_ino);  // it was exchanged as a whole
  EXPECT_EQ(names("out"),
            (std::vector<std::string>{"config.json", "model-1-of-1.bin", "tokenizer/vocab.txt"}));
  EXPECT_EQ(content("out/model-1-of-1.bin"), "new");
  EXPECT_EQ(scratch_.entries(), 1U);
}

TEST_F(Folders, WhatIsOfOthersStays) {
  write_model("out", 3, "old");
  write("out/README.md", "mine");
  write("out/model-1-of-3.bin.bak", "mine");
  write("out/.git/objects/ab/cdef", "mine");
  write("out/notes/config.json", "mine");  // of another model, in a folder of its own
  write("out/tokenizer/notes.txt", "mine");
  write("elsewhere/file", "mine");
  fs::create_directory(path("out/empty"));
  fs::create_symlink("../elsewhere", path("out/link"));
  fs::create_symlink("nowhere", path("out/broken"));
  save("out", 2, "new");
  EXPECT_EQ(names("out"), (std::vector<std::string>{
                              ".git/objects/ab/cdef", "README.md", "broken", "config.json", "link",
                              "model-1-of-2.bin", "model-1-of-3.bin.bak", "model-2-of-2.bin",
                              "notes/config.json", "tokenizer/notes.txt", "tokenizer/vocab.txt"}));
  for (const char* mine : {"out/README.md", "out/.git/objects/ab/cdef", "out/notes/config.json",
                           "out/tokenizer/notes.txt", "out/model-1-of-3.bin.bak", "out/link/file"})
    EXPECT_EQ(content(mine), "mine") << mine;
  for (const char* ours : {"out/config.json", "out/model-1-of-2.bin", "out/tokenizer/vocab.txt"})
    EXPECT_EQ(content(ours), "new") << ours;
  EXPECT_TRUE(fs::is_directory(path("out/empty")));
  EXPECT_TRUE(fs::is_symlink(path("out/broken")));
  EXPECT_EQ(scratch_.entries(), 2U);  // and elsewhere
}

TEST_F(Folders, WhatALinkLeadsToStays) {
  write_model("theirs", 1, "theirs");
  fs::create_directory(path("out"));
  for (const char* name : {"config.json", "model-1-of-1.bin"})
    fs::create_symlink(concat("../theirs/", name), path(concat("out/", name)));
  fs::create_hard_link(path("theirs/config.json"), path("theirs/another"));
  for (const char* notes : {"", "out/notes"}) {
    if (*notes != '\0') write(notes, "mine");
    save("out", 1, "new");
    EXPECT_EQ(content("theirs/config.json"), "theirs");
    EXPECT_EQ(content("theirs/model-1-of-1.bin"), "theirs");
    EXPECT_EQ(content("out/config.json"), "new");
    EXPECT_FALSE(fs::is_symlink(path("out/config.json")));
  }
}

TEST_F(Folders, WhatCannotBeReplacedIsKnownBefore) {
  fs::create_directories(path("out/config.json/mine"));
  EXPECT_EQ(error_of([&] { FolderSave(path("out"), sample_files()); }, Exit::cannot_create),
            path("out/config.json") + ": is a folder, expected a file or nothing");
  write("file", "mine");
  EXPECT_EQ(error_of([&] { FolderSave(path("file"), sample_files()); }, Exit::cannot_create),
            path("file") + ": is a file, expected a folder or nothing");
  EXPECT_EQ(content("file"), "mine");
  write_model("three", 2, "old");
  write("three/tokenizer", "mine");  // where a folder must be
  EXPECT_EQ(error_of([&] { save("three", 1, "new"); }, Exit::cannot_create),
            path("three/tokenizer") + ": is no folder, expected one or nothing");
  fs::remove(path("three/tokenizer"));
  fs::create_directory(path("elsewhere"));
  fs::create_symlink("../elsewhere", path("three/tokenizer"));
  EXPECT_NE(error_of([&] { save("three", 1, "new"); }, Exit::cannot_create), "");
  EXPECT_EQ(names("three"), (std::vector<std::string>{"config.json", "model-1-of-2.bin",
                                                      "model-2-of-2.bin", "tokenizer"}));
  EXPECT_EQ(content("three/config.json"), "old");
  EXPECT_TRUE(fs::is_empty(path("elsewhere")));
  EXPECT_EQ(scratch_.entries(), 4U);
}

TEST_F(Folders, FileThatComesMeanwhileStays) {
  save("out", 1, "old");
  FolderSave next(path("out"), sample_files());
  write_model(fs::path(next.folder()).filename().string(), 2, "new");
  write("out/late", "mine");
  next.publish();
  EXPECT_EQ(content("out/late"), "mine");
  EXPECT_EQ(content("out/model-2-of-2.bin"), "new");
  EXPECT_FALSE(fs::exists(path("out/model-1-of-1.bin")));
}

TEST_F(Folders, OneFileTakesAnothersPlaceAtOnce) {  // readers of the old one keep it, whole
  const OwnFile own = [](const std::string& name) { return name == "model.gguf"; };
  const FolderFiles files = {.own = [own](const std::string&) { return own; }};
  write("out/model.gguf", "old");
  write("out/README.md", "mine");
  const File reader = File::open(path("out/model.gguf"));
  FolderSave save(path("out"), files);
  write_whole(save.folder() + "/model.gguf", "new");
  save.publish();
  std::byte old[3];
  reader.read_at(0, old);
  EXPECT_EQ(as_text(old), "old");
  EXPECT_EQ(content("out/model.gguf"), "new");
  EXPECT_EQ(names("out"), (std::vector<std::string>{"README.md", "model.gguf"}));
}

// Folders that a dead process could have left, but for the mark: somebody's copies.
TEST_F(Folders, CopiesThatOthersMadeAreNoLeftovers) {
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  const std::string copy = concat("out.tmp.", dead);
  write_model("out.replaced", 1, "mine");
  write_model(copy, 1, "mine");
  write(concat("out.tmp.", dead + 1 == ::getpid() ? dead + 2 : dead + 1), "a file");
  write_model(concat("out.tmp.", 20261126), 1, "mine");
  for (int i = 0; i < 2; ++i) {
    save("out", 1, "new");
    EXPECT_EQ(content("out.replaced/config.json"), "mine");
    EXPECT_EQ(content(copy + "/config.json"), "mine");
    EXPECT_EQ(scratch_.entries(), 5U);
  }
  write(copy + "/" + kSaveMark, "");
  save("out", 1, "new");
  EXPECT_FALSE(fs::exists(path(copy)));
}

TEST_F(Folders, DeletedUnlessOthersUseThem) {
  write_model("own", 2, "old");
  write_model("shared", 2, "old");
  write("shared/notes", "mine");
  delete_folder(path("own"), sample_files());
  delete_folder(path("shared"), sample_files());
  EXPECT_FALSE(fs::exists(path("own")));
  EXPECT_EQ(names("shared"), (std::vector<std::string>{"config.json", "model-1-of-2.bin",
                                                       "model-2-of-2.bin", "notes"}));
  EXPECT_EQ(scratch_.entries(), 1U);
}

TEST_F(Folders, UnreadableFoldersAreOfOthers) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads all";
  write_model("out", 1, "old");
  fs::create_directory(path("out/lost+found"));
  fs::permissions(path("out/lost+found"), fs::perms::none);
  save("out", 2, "new");
  EXPECT_TRUE(fs::is_directory(path("out/lost+found")));
  EXPECT_EQ(content("out/model-2-of-2.bin"), "new");
}

}  // namespace
}  // namespace mt
