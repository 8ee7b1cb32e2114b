// A hash is computed once for each state of a file.
#include "data/files/known_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <utime.h>

#include <chrono>
#include <thread>

#include "base/file.h"
#include "base/hash.h"
#include "data/files/indexed_dataset.h"
#include "tests/data/support.h"

namespace mt {
namespace {

void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }

struct Sample {
  Scratch scratch;
  std::string path = scratch.path("file");
  KnownFiles known{scratch.path("cache")};
  int reads = 0;

  Sample() { write("one"); }
  void write(const std::string& content) {  // in place
    File::create(path).write(content);
    settle();
  }
  std::string hash() {
    return known.hash(path, [&] {
      ++reads;
      return hash_hex(as_bytes(read_file(path)));
    });
  }
};

TEST(KnownFiles, AFileIsReadOnce) {
  Sample sample;
  const std::string hash = sample.hash();
  EXPECT_EQ(hash, hash_hex(as_bytes("one")));
  EXPECT_EQ(sample.hash(), hash);
  EXPECT_EQ(KnownFiles(sample.scratch.path("cache")).hash(sample.path, [] { return ""; }), hash);
  EXPECT_EQ(sample.reads, 1);
}

TEST(KnownFiles, OneThatChangedIsReadAgain) {
  Sample sample;
  sample.hash();
  struct stat before = {};
  ASSERT_EQ(::stat(sample.path.c_str(), &before), 0);
  sample.write("two");
  const utimbuf times{before.st_atime, before.st_mtime};  // as if it had not changed
  ASSERT_EQ(::utime(sample.path.c_str(), &times), 0);
  EXPECT_EQ(sample.hash(), hash_hex(as_bytes("two")));
  write_file_atomically(sample.path, "six", true);
  EXPECT_EQ(sample.hash(), hash_hex(as_bytes("six")));
  EXPECT_EQ(sample.reads, 3);
}

// Its time might not tell the next change.
TEST(KnownFiles, OneThatChangedJustNowIsNotKept) {
  Sample sample;
  write_file_atomically(sample.path, "now", true);
  sample.hash();
  settle();
  sample.hash();
  EXPECT_EQ(sample.reads, 2);
  sample.hash();
  EXPECT_EQ(sample.reads, 2);
}

TEST(KnownFiles, OneThatChangesWhileItIsReadIsNotKept) {
  Sample sample;
  sample.known.hash(sample.path, [&] {
    sample.write("two");
    return "hash";
  });
  EXPECT_EQ(sample.hash(), hash_hex(as_bytes("two")));
  EXPECT_EQ(sample.reads, 1);
}

TEST(KnownFiles, WhatIsNotAsItWasWrittenIsNotKnown) {
  Sample sample;
  sample.hash();
  const std::filesystem::directory_iterator files(sample.scratch.path("cache"));
  const std::string kept = files->path().string(), whole = read_file(kept);
  for (std::size_t i = 0; i < whole.size(); i += 5) {
    File::create(kept).write(whole.substr(0, i));
    sample.reads = 0;
    EXPECT_EQ(sample.hash(), hash_hex(as_bytes("one")));
    EXPECT_EQ(sample.reads, 1) << "cut to " << i << " bytes";
  }
}

TEST(KnownFiles, WithoutAFolderNothingIsKept) {
  Sample sample;
  sample.known = KnownFiles();
  sample.hash();
  sample.hash();
  EXPECT_EQ(sample.reads, 2);
}

TEST(KnownFiles, AKnownIndexStillMustFitItsTokens) {
  const Scratch scratch;
  const std::string prefix = scratch.path("data");
  write_documents(prefix, TokenType::u16, {{1, 2, 3}, {4, 5}});
  settle();
  const KnownFiles known(scratch.path("cache"));
  const std::string hash = IndexedDataset(prefix, known).lengths_hash();
  EXPECT_EQ(hash, IndexedDataset(prefix).lengths_hash());
  EXPECT_EQ(IndexedDataset(prefix, known).lengths_hash(), hash);
  std::filesystem::resize_file(bin_path(prefix), 8);
  EXPECT_EQ(error_of([&] { IndexedDataset(prefix, known); }),
            concat("65 ", bin_path(prefix), ": 8 bytes, expected 10 as the index says"));
}

}  // namespace
}  // namespace mt
