#include "data/files/manifest.h"

#include <gtest/gtest.h>

#include "tests/data/support.h"

namespace mt {
namespace {

Manifest example() {
  Manifest manifest;
  manifest.version = "0.1.0";
  manifest.arguments = {"--input", "a \"b\".jsonl", "é"};
  manifest.inputs = {{"a.jsonl", 12, "00ff"}, {"-", 0, "11"}};
  manifest.tokenizer = {"GPT2BPETokenizer",   "abcd", 50257, 50256, {{"vocab-file", "/v.json"}},
                        {{"vocab-size", "9"}}};
  manifest.dtype = "uint16";
  manifest.sequences = 1;
  manifest.documents = 2;
  manifest.tokens = 3;
  manifest.bin_hash = "b0";
  manifest.idx_hash = "i0";
  return manifest;
}

Manifest reread(const std::string& text) {
  const Scratch folder;
  write_file_atomically(manifest_path(folder.path("t")), text, false);
  return read_manifest(folder.path("t"));
}

TEST(Manifest, Text) {
  EXPECT_EQ(
      manifest_text(example()),
      R"({"schema":"mt-data/1","version":"0.1.0","arguments":["--input","a \"b\".jsonl","é"],)"
      R"("inputs":[{"path":"a.jsonl","bytes":12,"hash":"00ff"},{"path":"-","bytes":0,"hash":"11"}],)"
      R"("tokenizer":{"type":"GPT2BPETokenizer","identity":"abcd","vocab_size":50257,"eod":50256,)"
      R"("files":{"vocab-file":"/v.json"},"settings":{"vocab-size":"9"}},)"
      R"("dtype":"uint16","sequences":1,"documents":2,)"
      R"("tokens":3,"bin_hash":"b0","idx_hash":"i0"})"
      "\n");
}

TEST(Manifest, ReadsWhatItWrites) {
  const std::string text = manifest_text(example());
  EXPECT_EQ(manifest_text(reread(text)), text);
  std::string older = text;  // without settings
  const std::string settings = ",\"settings\":{\"vocab-size\":\"9\"}";
  older.erase(older.find(settings), settings.size());
  EXPECT_TRUE(reread(older).tokenizer->settings.empty());
  Manifest plain = example();
  plain.tokenizer.reset();
  EXPECT_FALSE(reread(manifest_text(plain)).tokenizer.has_value());
}

TEST(Manifest, AbsentIsNoInputOrNothing) {
  const Scratch folder;
  EXPECT_EQ(code_of([&] { read_manifest(folder.path("t")); }), Exit::no_input);
  EXPECT_FALSE(find_manifest(folder.path("t")).has_value());
}

TEST(Manifest, WrongContentIsBadData) {
  const std::string text = manifest_text(example());
  for (std::size_t size = 0; size + 2 < text.size(); ++size)
    EXPECT_EQ(code_of([&] { reread(text.substr(0, size)); }), Exit::bad_data) << size;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return code_of([&] { reread(changed); });
  };
  EXPECT_EQ(with("mt-data/1", "mt-data/2"), Exit::bad_data);
  EXPECT_EQ(with("\"tokens\":3", "\"tokens\":-3"), Exit::bad_data);
  EXPECT_EQ(with("\"tokens\":3", "\"tokens\":\"3\""), Exit::bad_data);
  EXPECT_EQ(with("\"--input\"", "7"), Exit::bad_data);
  EXPECT_EQ(with("\"dtype\"", "\"dtypo\""), Exit::bad_data);
  EXPECT_EQ(with("{\"path\":\"-\",\"bytes\":0,\"hash\":\"11\"}", "null"), Exit::bad_data);
}

}  // namespace
}  // namespace mt
