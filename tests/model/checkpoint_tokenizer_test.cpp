#include "model/checkpoint_tokenizer.h"

#include <gtest/gtest.h>

#include "tests/text/hf_files.h"

namespace mt {

// What is beside a tokenizer.json says where documents end, so it travels too.
TEST(CheckpointTokenizer, HuggingFacesFilesAreCopiedTogether) {
  const HfFiles files(HfParts().text(), R"({"eos_token":"d"})");
  TokenizerOptions options;
  options.type = HfTokenizer::kType;
  options.model = files.folder();
  const Scratch checkpoint;
  const std::vector<WrittenFile> written = write_tokenizer(checkpoint.path(""), options);
  ASSERT_EQ(written.size(), 2u);
  const HfTokenizer copy(checkpoint.path("tokenizer"));
  EXPECT_EQ(copy.identity(), files.load().identity());
  EXPECT_EQ(copy.eod(), 3);
  EXPECT_EQ(tokenizer_manifest(options, "x"),
            R"({"tokenizer":{"type":"HuggingFaceTokenizer","identity":"x",)"
            R"("tokenizer-model":"tokenizer/tokenizer.json"}})");
}

}  // namespace mt
