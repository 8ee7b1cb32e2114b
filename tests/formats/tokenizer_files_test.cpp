// The files that transformers looks for, made of those that another program's tokenizer has.
#include "formats/hugging_face/tokenizer_files.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "formats/hugging_face/hugging_face_source.h"
#include "model/checkpoint_tokenizer.h"
#include "tests/formats/convert_support.h"
#include "text/hf/hf_tokenizer.h"
#include "text/same_ids.h"

namespace mt {
namespace {

const std::string kTestdata = MT_TESTDATA "/";

std::vector<Companion> lying(std::initializer_list<std::pair<const char*, const char*>> files) {
  std::vector<Companion> companions;
  for (const auto& [name, path] : files)
    companions.push_back({.name = name, .path = concat(kTestdata, path)});
  return companions;
}

std::string content_of(const std::vector<Companion>& files, const char* name) {
  const Companion* const file = find_companion(files, name);
  return file == nullptr ? "" : file->content;
}

// Ids of texts as another tokenizer gives them.
void expect_equal_ids(const std::vector<Companion>& made, const Tokenizer& original) {
  const HfTokenizer again(content_of(made, "tokenizer.json"), "tokenizer.json",
                          {{"tokenizer_config.json", content_of(made, "tokenizer_config.json")}});
  EXPECT_EQ(again.vocab_size(), original.vocab_size());
  for (const char* text :
       {"", "The cat.", "  two  words\n", "caf\u00e9 12345 \u4e16\u754c", "a\tb"}) {
    std::vector<std::int32_t> ids, expected;
    again.encode(text, ids);
    original.encode(text, expected);
    EXPECT_EQ(ids, expected) << text;
  }
}

// The type of the tokenizer in a folder of copies, with a tokenizer_config.json where one is given.
std::string type_of(const std::vector<std::pair<const char*, const char*>>& files,
                    const std::string& config = {}) {
  Scratch folder;
  for (const auto& [name, path] : files)
    std::filesystem::copy_file(concat(kTestdata, path), folder.path(name));
  if (!config.empty()) write_file_atomically(folder.path("tokenizer_config.json"), config, false);
  return tokenizer_of_manifest(read_tokenizer_in(folder.path("")).manifest).type;
}

// AutoTokenizer of transformers takes the class that the folder says, or that of the files.
TEST(TokenizerFiles, ThoseOfGpt2AloneAreMegatrons) {
  const std::vector<std::pair<const char*, const char*>> gpt2 = {
      {"vocab.json", "gpt2_bpe/vocab.json"}, {"merges.txt", "gpt2_bpe/merges.txt"}};
  EXPECT_EQ(type_of(gpt2), "GPT2BPETokenizer");
  for (const char* config :
       {R"({"tokenizer_class":"GPT2Tokenizer"})", R"({"tokenizer_class":"GPT2TokenizerFast"})",
        R"({"tokenizer_class":"GPT2Tokenizer","add_prefix_space":false})"})
    EXPECT_EQ(type_of(gpt2, config), "GPT2BPETokenizer") << config;
  for (const char* config :
       {R"({"tokenizer_class":"Qwen2Tokenizer"})", R"({"tokenizer_class":"RobertaTokenizer"})",
        R"({"tokenizer_class":"GPT2Tokenizer","add_prefix_space":true})",
        R"({"tokenizer_class":"GPT2Tokenizer","add_bos_token":true})",
        R"({"tokenizer_class":"GPT2Tokenizer","additional_special_tokens":["<|im_start|>"]})",
        R"({"tokenizer_class":"GPT2Tokenizer","eos_token":"the"})"})
    EXPECT_EQ(type_of(gpt2, config), "HuggingFaceTokenizer") << config;
}

TEST(TokenizerFiles, ThoseOfOthersAreHuggingFaces) {
  EXPECT_EQ(type_of({{"vocab.txt", "wordpiece/vocab.txt"}}), "HuggingFaceTokenizer");
  for (const char* name : {"tokenizer.model", "spiece.model", "sentencepiece.bpe.model"})
    EXPECT_EQ(type_of({{name, "sentencepiece/bpe.model"}}), "HuggingFaceTokenizer");
  EXPECT_EQ(type_of({{"tokenizer.json", "huggingface/llama3.json"}}), "HuggingFaceTokenizer");
  EXPECT_EQ(type_of({{"merges.txt", "gpt2_bpe/merges.txt"}}), "");
}

// What is made of a tokenizer's own files: with it transformers gives the same ids of a text.
void expect_made(const TokenizerOptions& options, const char* name, const char* path,
                 const char* class_name, const std::vector<std::int32_t>& before = {},
                 const std::vector<std::int32_t>& after = {}) {
  const auto tokenizer = make_tokenizer(options);
  const auto made = missing_tokenizer_files(lying({{name, path}}), *tokenizer, 64);
  ASSERT_EQ(made.size(), 3U) << path;
  const std::string config = content_of(made, "tokenizer_config.json");
  EXPECT_NE(config.find(concat(R"("tokenizer_class":")", class_name, "\"")), std::string::npos)
      << config;
  for (const int version : {4, 5}) {
    const HfTokenizer again(content_of(made, "tokenizer.json"), "tokenizer.json",
                            {{"tokenizer_config.json", config}}, version);
    EXPECT_EQ(again.vocab_size(), tokenizer->vocab_size());
    EXPECT_EQ(again.eod(), tokenizer->eod());
    for (const char* text : {"The cat.", "  two  words", "caf\u00e9 12345 \u4e16\u754c", "a b"}) {
      std::vector<std::int32_t> ids, expected = before;
      again.encode(text, ids);
      tokenizer->encode(text, expected);
      expected.insert(expected.end(), after.begin(), after.end());
      EXPECT_EQ(ids, expected) << path << ": " << text << ": version " << version;
    }
  }
}

TEST(TokenizerFiles, OfBert) {
  const std::string words = kTestdata + "wordpiece/vocab.txt";
  const auto special =
      make_tokenizer({.type = "BertWordPieceCase", .vocab_file = words})->special_ids();
  for (const char* type : {"BertWordPieceLowerCase", "BertWordPieceCase"})
    expect_made({.type = type, .vocab_file = words}, "vocab.txt", "wordpiece/vocab.txt",
                "BertTokenizer", {special.cls}, {special.sep});
}

// Vocabularies with words of more than 100 characters, which BERT's class cuts in version 4 as the
// file says and in version 5 not at all: the file says all, as of any class.
TEST(TokenizerFiles, OfBertWithLongWords) {
  for (const char* name : {"wordpiece/trained-lower.txt", "wordpiece/trained-case.txt"}) {
    const TokenizerOptions options{.type = "BertWordPieceCase",
                                   .vocab_file = concat(kTestdata, name)};
    const auto tokenizer = make_tokenizer(options);
    const auto ids = tokenizer->special_ids();
    expect_made(options, "vocab.txt", name, "PreTrainedTokenizerFast", {ids.cls}, {ids.sep});
    const auto made = missing_tokenizer_files(lying({{"vocab.txt", name}}), *tokenizer, 64);
    for (const std::size_t length : {100, 101, 128, 200, 201}) {
      const std::string word(length, 'a');
      std::vector<std::int32_t> again, expected = {ids.cls};
      HfTokenizer(content_of(made, "tokenizer.json"), "tokenizer.json", {}).encode(word, again);
      tokenizer->encode(word, expected);
      expected.push_back(ids.sep);
      EXPECT_EQ(again, expected) << name << ": " << length;
    }
    // A token with signs of two classes, which the tokenizers of transformers do not put in
    // Unicode's order where they take accents away, is another one to them.
    const TokenizerOptions lower{.type = "BertWordPieceLowerCase",
                                 .vocab_file = options.vocab_file};
    const auto others =
        missing_tokenizer_files(lying({{"vocab.txt", name}}), *make_tokenizer(lower), 64);
    EXPECT_EQ(content_of(others, "tokenizer.json"), "");
    EXPECT_NE(content_of(others, "tokenizer_config.json").find("\"BertTokenizer\""),
              std::string::npos);
  }
}

// A folder that AutoTokenizer reads has a tokenizer.json that says the same, with no word more.
TEST(TokenizerFiles, OfBertsFolders) {
  for (const char* name : {"vocab.txt", "trained-lower.txt", "trained-case.txt"})
    for (const char* config : {R"({"tokenizer_class":"BertTokenizer","do_lower_case":false})",
                               R"({"tokenizer_class":"BertTokenizer","do_lower_case":true})",
                               R"({"tokenizer_class":"ElectraTokenizer"})"}) {
      const std::string path = concat(kTestdata, "wordpiece/", name);
      const HfTokenizer tokenizer(
          {{"vocab.txt", read_file(path)}, {"tokenizer_config.json", config}});
      const std::vector<Companion> companions = {
          {.name = "vocab.txt", .path = path},
          {.name = "tokenizer_config.json", .content = config}};
      const auto made = missing_tokenizer_files(companions, tokenizer, 64);
      EXPECT_EQ(made.size(), 2U) << name << config;
      const HfTokenizer again(content_of(made, "tokenizer.json"), "tokenizer.json", {});
      EXPECT_TRUE(same_ids(again, tokenizer)) << name << config;
    }
}

// What a folder says already stays as it is.
TEST(TokenizerFiles, OfBertBesideWhatIsSaid) {
  const auto tokenizer = make_tokenizer(
      {.type = "BertWordPieceCase", .vocab_file = kTestdata + "wordpiece/vocab.txt"});
  const auto made_beside = [&](const char* name, const char* content) {
    auto companions = lying({{"vocab.txt", "wordpiece/vocab.txt"}});
    companions.push_back({.name = name, .content = content});
    return missing_tokenizer_files(companions, *tokenizer, 64);
  };
  const auto mapped = made_beside("special_tokens_map.json", R"({"mask_token":"[MASK]"})");
  EXPECT_EQ(mapped.size(), 2U);
  EXPECT_EQ(find_companion(mapped, "special_tokens_map.json"), nullptr);
  EXPECT_NE(content_of(mapped, "tokenizer_config.json").find(R"("do_lower_case":false)"),
            std::string::npos);
  const auto same = made_beside("tokenizer_config.json",
                                R"({"tokenizer_class":"BertTokenizer","do_lower_case":false})");
  EXPECT_EQ(same.size(), 2U);
  const HfTokenizer again(content_of(same, "tokenizer.json"), "tokenizer.json", {});
  EXPECT_EQ(again.vocab_size(), tokenizer->vocab_size());  // with [BOS] and [EOS]
  EXPECT_EQ(again.decode({{again.vocab_size() - 1}}), "[EOS]");
  // One that says what this tokenizer does not do has no tokenizer.json of it.
  const auto other = made_beside("tokenizer_config.json",
                                 R"({"tokenizer_class":"BertTokenizer","do_lower_case":true})");
  EXPECT_EQ(content_of(other, "tokenizer.json"), "");
}

TEST(TokenizerFiles, OfSentencePiece) {
  for (const char* type : {"Llama2Tokenizer", "GPTSentencePieceTokenizer"})
    for (const char* model : {"sentencepiece/bpe.model", "sentencepiece/unigram.model"})
      expect_made({.type = type, .model = concat(kTestdata, model)}, "tokenizer.model", model,
                  "PreTrainedTokenizerFast");
  // With pieces of bytes, and under the name that T5's folders have.
  for (const char* name : {"tokenizer.model", "spiece.model"})
    expect_made({.type = "Llama2Tokenizer", .model = kTestdata + "sentencepiece/llama.model"}, name,
                "sentencepiece/llama.model", "PreTrainedTokenizerFast");
}

TEST(TokenizerFiles, OfGpt2) {
  const auto tokenizer = make_tokenizer({.type = "GPT2BPETokenizer",
                                         .vocab_file = kTestdata + "gpt2_bpe/vocab.json",
                                         .merge_file = kTestdata + "gpt2_bpe/merges.txt"});
  auto companions =
      lying({{"vocab.json", "gpt2_bpe/vocab.json"}, {"merges.txt", "gpt2_bpe/merges.txt"}});
  const auto made = missing_tokenizer_files(companions, *tokenizer, 64);
  ASSERT_EQ(made.size(), 3U);
  expect_equal_ids(made, *tokenizer);
  const std::string config = content_of(made, "tokenizer_config.json");
  EXPECT_NE(config.find(R"("eos_token":"<|endoftext|>")"), std::string::npos) << config;
  EXPECT_NE(config.find(R"("model_max_length":64)"), std::string::npos) << config;
  EXPECT_NE(content_of(made, "special_tokens_map.json").find("bos_token"), std::string::npos);
  // What is there stays as it is.
  companions.push_back({.name = "tokenizer_config.json", .content = "{}"});
  EXPECT_EQ(
      find_companion(missing_tokenizer_files(companions, *tokenizer, 64), "tokenizer_config.json"),
      nullptr);
}

// Their files as others write them, too: merges without a first line, without an end of the last,
// and none at all; positions without an end.
TEST(TokenizerFiles, OfGpt2AsOthersWriteIt) {
  const std::string vocab = read_file(kTestdata + "gpt2_bpe/vocab.json"),
                    merges = read_file(kTestdata + "gpt2_bpe/merges.txt");
  const auto made_of = [&](const std::string& words, const std::string& pairs,
                           std::int64_t positions) {
    const Scratch folder;
    write_file_atomically(folder.path("vocab.json"), words, false);
    write_file_atomically(folder.path("merges.txt"), pairs, false);
    const auto tokenizer = make_tokenizer({.type = "GPT2BPETokenizer",
                                           .vocab_file = folder.path("vocab.json"),
                                           .merge_file = folder.path("merges.txt")});
    const auto made =
        missing_tokenizer_files(read_companions(folder.path("")), *tokenizer, positions);
    EXPECT_EQ(made.size(), 3U);
    expect_equal_ids(made, *tokenizer);
    return content_of(made, "tokenizer_config.json");
  };
  const std::string plain = made_of(vocab, merges, 64);
  EXPECT_EQ(made_of(vocab, merges.substr(merges.find('\n') + 1), 64), plain);
  EXPECT_EQ(made_of(vocab, merges.substr(0, merges.size() - 1), 64), plain);
  // No positions that end: rotary ones, say.
  EXPECT_EQ(made_of(vocab, merges, std::int64_t{1} << 40).find("model_max_length"),
            std::string::npos);
  // Without merges each byte is a token.
  EXPECT_EQ(made_of(vocab, "#version: 0.2\n", 64), plain);
}

TEST(TokenizerFiles, NoneWhereThereAreNone) {
  const auto tokenizer = make_tokenizer({.type = "NullTokenizer", .vocab_size = 9});
  EXPECT_TRUE(missing_tokenizer_files({}, *tokenizer, 64).empty());
}

// What config.json does not say would be another tokenizer's.
TEST(TokenizerFiles, SpecialTokensOfTheConfig) {
  ModelConfig model = config_named("llama");
  const SpecialTokens special{.pad = 3, .bos = -1, .eos = 5};
  const std::string made = hugging_face_config(model, DType::f32, "", &special);
  EXPECT_NE(made.find(R"("bos_token_id":null,"eos_token_id":5,"pad_token_id":3)"),
            std::string::npos)
      << made;
  const std::string kept = hugging_face_config(
      model, DType::f32, R"({"model_type":"llama","bos_token_id":1,"eos_token_id":[7,8]})",
      &special);
  EXPECT_NE(kept.find(R"("bos_token_id":1,"eos_token_id":[7,8])"), std::string::npos) << kept;
  EXPECT_EQ(hugging_face_config(model, DType::f32, "").find("eos_token_id"), std::string::npos);
}

}  // namespace
}  // namespace mt
