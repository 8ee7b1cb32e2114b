#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/command.h"
#include "tests/text/gpt2_files.h"

namespace mt {

TEST(Tokenizer, IsMadeByItsType) {
  const Gpt2Files files(vocabulary_of(kLowTokens), kLowMerges);
  TokenizerOptions options;
  CommandLine cl("test", {"--tokenizer-type", "GPT2BPETokenizer", "--vocab-file", files.vocab(),
                          "--merge-file=" + files.merges()});
  options.add_to(cl);
  cl.parse();
  const auto tokenizer = make_tokenizer(options);
  EXPECT_EQ(tokenizer->type(), "GPT2BPETokenizer");
  EXPECT_EQ(encode(*tokenizer, "lolow"), (std::vector<std::int32_t>{256, 257}));
  EXPECT_EQ(tokenizer->identity(), files.load().identity());
}

TEST(Tokenizer, RefusesWhatItDoesNotKnow) {
  const auto error = [](const TokenizerOptions& options) {
    return error_of([&] { make_tokenizer(options); });
  };
  EXPECT_EQ(error({.type = "WordTokenizer", .vocab_file = "v", .merge_file = "m"}),
            "64 --tokenizer-type: unknown type WordTokenizer, expected one of "
            "BertWordPieceLowerCase, BertWordPieceCase, GPT2BPETokenizer, SentencePieceTokenizer, "
            "GPTSentencePieceTokenizer, Llama2Tokenizer, HuggingFaceTokenizer, NullTokenizer, "
            "TikTokenizer");
  EXPECT_EQ(error({}),
            "64 --tokenizer-type: not given, expected one of BertWordPieceLowerCase, "
            "BertWordPieceCase, GPT2BPETokenizer, "
            "SentencePieceTokenizer, GPTSentencePieceTokenizer, Llama2Tokenizer, "
            "HuggingFaceTokenizer, NullTokenizer, TikTokenizer");
  EXPECT_EQ(error({.type = "GPT2BPETokenizer", .vocab_file = "", .merge_file = "m"}),
            "64 --vocab-file: not given, --tokenizer-type GPT2BPETokenizer needs it");
  EXPECT_EQ(error({.type = "GPT2BPETokenizer", .vocab_file = "v", .merge_file = ""}),
            "64 --merge-file: not given, --tokenizer-type GPT2BPETokenizer needs it");
  EXPECT_EQ(error({.type = "Llama2Tokenizer"}),
            "64 --tokenizer-model: not given, --tokenizer-type Llama2Tokenizer needs it");
  EXPECT_EQ(error({.type = "Llama2Tokenizer", .vocab_file = "v", .model = "m"}),
            "64 --vocab-file v: --tokenizer-type Llama2Tokenizer does not read it");
  EXPECT_EQ(error({.type = "Llama2Tokenizer", .model = "m", .extra_ids = 3}),
            "64 --vocab-extra-ids 3: --tokenizer-type Llama2Tokenizer has none");
}

// A type and a folder say all.
TEST(Tokenizer, FilesAreFoundInAFolder) {
  const Scratch folder;
  const Gpt2Files files(vocabulary_of(kLowTokens), kLowMerges);
  std::filesystem::copy_file(files.vocab(), folder.path("vocab.json"));
  std::filesystem::copy_file(files.merges(), folder.path("merges.txt"));
  std::filesystem::copy_file(MT_TESTDATA "/wordpiece/vocab.txt", folder.path("vocab.txt"));
  TokenizerOptions options{.type = "GPT2BPETokenizer", .model = folder.path("")};
  EXPECT_EQ(make_tokenizer(options)->identity(), files.load().identity());
  for (const TokenizerField& field : tokenizer_fields(options.type))
    EXPECT_TRUE(std::filesystem::is_regular_file(field.get(options))) << field.name;
  options.type = "BertWordPieceLowerCase";
  EXPECT_EQ(make_tokenizer(options)->type(), options.type);
  options.type = "HuggingFaceTokenizer";
  EXPECT_EQ(make_tokenizer(options)->type(), options.type);
  options.type = "Llama2Tokenizer";  // there is none of its files
  EXPECT_THROW(make_tokenizer(options), Error);
  options.type = "NullTokenizer";
  EXPECT_EQ(error_of([&] { make_tokenizer(options); }),
            concat("64 --tokenizer-model ", options.model,
                   ": --tokenizer-type NullTokenizer does not read it"));
}

// One of two files that go together means both; any other is read whatever lies beside it.
TEST(Tokenizer, AFileOfHuggingFacesNamedByItself) {
  const Scratch folder;
  const Gpt2Files files(vocabulary_of(kLowTokens), kLowMerges);
  TokenizerOptions options{.type = "HuggingFaceTokenizer", .model = folder.path("vocab.json")};
  std::filesystem::copy_file(files.vocab(), options.model);
  EXPECT_EQ(error_of([&] { make_tokenizer(options); }).substr(0, 3), "66 ");
  std::filesystem::copy_file(files.merges(), folder.path("merges.txt"));
  std::filesystem::copy_file(MT_TESTDATA "/wordpiece/vocab.txt", folder.path("vocab.txt"));
  const std::int32_t both = make_tokenizer(options)->vocab_size();
  options.model = folder.path("merges.txt");
  EXPECT_EQ(make_tokenizer(options)->vocab_size(), both);
  options.model = folder.path("vocab.txt");
  EXPECT_NE(make_tokenizer(options)->vocab_size(), both);
}

// A file of another kind is refused by what it is, and what reads it.
TEST(Tokenizer, RanksAreNoSentencePieceModel) {
  const Scratch folder;
  std::ofstream(folder.path("tokenizer.model")) << "IQ== 0\nIg== 1\n";
  for (const char* type : {"Llama2Tokenizer", "GPTSentencePieceTokenizer"})
    EXPECT_EQ(error_of([&] { make_tokenizer({.type = type, .model = folder.path("")}); }),
              concat("65 ", folder.path("tokenizer.model"),
                     ": these are ranks as tiktoken writes them (Llama 3's tokenizer.model), for ",
                     "--tokenizer-type TikTokenizer or HuggingFaceTokenizer, and no SentencePiece ",
                     "model"));
}

TEST(Tokenizer, RefusesOptionsOfOtherTypes) {
  EXPECT_EQ(error_of([] {
              make_tokenizer(
                  {.type = "GPT2BPETokenizer", .vocab_file = "v", .merge_file = "m", .model = "x"});
            }),
            "64 --tokenizer-model x: --tokenizer-type GPT2BPETokenizer does not read it");
  EXPECT_EQ(error_of([] {
              make_tokenizer({.type = "NullTokenizer", .tiktoken_pattern = "v1", .vocab_size = 3});
            }),
            "64 --tiktoken-pattern v1: --tokenizer-type NullTokenizer has none");
}

TEST(NullTokenizer, TextIsIds) {
  TokenizerOptions options;
  options.type = "NullTokenizer";
  EXPECT_THROW(make_tokenizer(options), Error);
  options.vocab_size = 100;
  const auto tokenizer = make_tokenizer(options);
  EXPECT_EQ(tokenizer->vocab_size(), 101);
  EXPECT_EQ(tokenizer->eod(), 100);
  std::vector<std::int32_t> ids;
  tokenizer->encode("3 14  100 0", ids);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{3, 14, 100, 0}));
  EXPECT_EQ(tokenizer->decode(ids), "3 14 100 0");
  ids.clear();
  tokenizer->encode("\t7 8\r\n", ids);  // as Python's int() takes them
  EXPECT_EQ(ids, (std::vector<std::int32_t>{7, 8}));
  for (const char* wrong : {"101", "-1", "x", "1,2", "3 4x", "3\n4"})
    EXPECT_THROW(tokenizer->encode(wrong, ids), Error) << wrong;
}

}  // namespace mt
