#include "model/checkpoint_tokenizer.h"
#include "base/file.h"
#include "ckpt/dist_checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/text/hf_files.h"

namespace mt {

// What is beside a tokenizer.json says where documents end, so it travels too.
TEST(CheckpointTokenizer, HuggingFacesFilesAreCopiedTogether) {
  const HfFiles files(HfParts().text(), R"({"eos_token":"d"})");
  TokenizerOptions options;
  options.type = HfTokenizer::kType;
  options.model = files.folder();
  const Scratch checkpoint;
  const std::vector<WrittenFile> written =
      write_tokenizer(checkpoint.path(""), tokenizer_copies(options));
  ASSERT_EQ(written.size(), 2u);
  const HfTokenizer copy(checkpoint.path("tokenizer"));
  EXPECT_EQ(copy.identity(), files.load().identity());
  EXPECT_EQ(copy.eod(), 3);
  EXPECT_EQ(tokenizer_manifest(options, "x"),
            R"({"tokenizer":{"type":"HuggingFaceTokenizer","identity":"x",)"
            R"("tokenizer-model":"tokenizer/tokenizer.json"}})");
}

// A folder without a tokenizer.json: its files travel, and so does the class that the model's
// config.json names, without the rest of that file.
TEST(CheckpointTokenizer, FoldersWithoutATokenizerJsonAreCopied) {
  const Scratch folder, checkpoint;
  std::ofstream(folder.path("vocab.json")) << R"({"a":0,"b":1,"ab":2,"<|endoftext|>":3})";
  std::ofstream(folder.path("merges.txt")) << "#version: 0.2\na b\n";
  std::ofstream(folder.path("config.json")) << R"({"model_type":"gpt_neox","hidden_size":8})";
  TokenizerOptions options;
  options.type = HfTokenizer::kType;
  options.model = folder.path("");
  options.transformers_version = 5;
  EXPECT_EQ(write_tokenizer(checkpoint.path(""), tokenizer_copies(options)).size(), 3u);
  const HfTokenizer original(folder.path(""), 5), copy(checkpoint.path("tokenizer"), 5);
  EXPECT_EQ(copy.identity(), original.identity());
  EXPECT_EQ(copy.eod(), 3);
  EXPECT_EQ(read_file(checkpoint.path("tokenizer/tokenizer_class.json")),
            "{\"tokenizer_class\":\"GPTNeoXTokenizer\"}\n");
  const std::string manifest = tokenizer_manifest(options, "x");
  EXPECT_EQ(manifest, R"({"tokenizer":{"type":"HuggingFaceTokenizer","identity":"x",)"
                      R"("tokenizer-model":"tokenizer/vocab.json","transformers-version":"5"}})");
  EXPECT_EQ(tokenizer_of_manifest(manifest).transformers_version, 5);
}

}  // namespace mt
