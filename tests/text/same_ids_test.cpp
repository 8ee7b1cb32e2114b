// Tokenizers are compared by what they do; what a tokenizer puts in front of a text is found.
#include "text/same_ids.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "tests/base/scratch.h"
#include "tests/text/hf_files.h"
#include "text/put_in_front.h"

namespace mt {
namespace {

const std::string kData = std::string(MT_TESTDATA) + "/";

std::unique_ptr<Tokenizer> gpt2() {
  return make_tokenizer({.type = "GPT2BPETokenizer",
                         .vocab_file = kData + "gpt2_bpe/vocab.json",
                         .merge_file = kData + "gpt2_bpe/merges.txt"});
}

std::string without_line_breaks(std::string json) {
  std::erase(json, '\n');
  return json;
}

TEST(SameIds, OfFilesThatAreWrittenOtherwise) {
  for (const char* name : {"gpt2", "llama3", "bert-lower", "t5", "llama2"}) {
    const std::string json = read_file(kData + "huggingface/" + name + ".json");
    const HfFiles one(json), other(" " + without_line_breaks(json) + "\n");
    EXPECT_NE(one.load().identity(), other.load().identity()) << name;
    EXPECT_TRUE(same_ids(one.load(), other.load())) << name;
  }
}

// A Llama-2's, as transformers makes it of its model file and as Megatron-LM reads that.
TEST(SameIds, OfASentencePieceModelAndWhatBecomesOfIt) {
  const Scratch scratch;
  const std::string model = kData + "sentencepiece/llama.model";
  std::filesystem::copy_file(model, scratch.path("tokenizer.model"));
  write_file_atomically(scratch.path("tokenizer_config.json"),
                        R"({"tokenizer_class":"LlamaTokenizer"})", false);
  const auto folder = make_tokenizer({.type = "HuggingFaceTokenizer", .model = scratch.path("")});
  EXPECT_TRUE(same_ids(*make_tokenizer({.type = "Llama2Tokenizer", .model = model}), *folder));
  EXPECT_FALSE(same_ids(
      *make_tokenizer({.type = "Llama2Tokenizer", .model = kData + "sentencepiece/bpe.model"}),
      *folder));
}

TEST(SameIds, OfOthersAreOthers) {
  const HfParts plain;
  HfParts spaced = plain, fewer = plain, renamed = plain, special = plain;
  spaced.normalizer = R"({"type":"Lowercase"})";
  fewer.model =
      R"({"type":"BPE","unk_token":null,"vocab":{"a":0,"b":1,"c":2,"d":3,"ab":4,"abc":5,"\u0120":6,)"
      R"("\u0120ab":7,"\u2581":8},"merges":["a b"]})";
  renamed.model =
      R"({"type":"BPE","unk_token":null,"vocab":{"a":0,"b":1,"c":3,"d":2,"ab":4,"abc":5,"\u0120":6,)"
      R"("\u0120ab":7,"\u2581":8},"merges":["a b","ab c","\u0120 ab"]})";
  special.added_tokens = "[" + hf_added(9, "<x>", "special") + "]";
  const HfFiles one(plain.text());
  EXPECT_TRUE(same_ids(one.load(), HfFiles(plain.text()).load()));
  for (const HfParts* other : {&spaced, &fewer, &renamed, &special})
    EXPECT_FALSE(same_ids(one.load(), HfFiles(other->text()).load())) << other->text();
  const HfFiles ended(plain.text(), R"({"eos_token":"d"})");
  EXPECT_FALSE(same_ids(one.load(), ended.load()));
}

TEST(AddsWords, BehindTheOthers) {
  const HfParts plain;
  HfParts more = plain, lower = plain, renamed = plain, taken = plain;
  more.added_tokens = "[" + hf_added(9, "<x>", "special") + "," + hf_added(10, "dd") + "]";
  lower.added_tokens = more.added_tokens;
  lower.normalizer = R"({"type":"Lowercase"})";
  renamed.added_tokens = more.added_tokens;
  renamed.model.replace(renamed.model.find("\"c\":2,\"d\":3"), 11, "\"c\":3,\"d\":2");
  taken.added_tokens = "[" + hf_added(9, "ab") + "]";  // has an id already
  const HfFiles one(plain.text());
  const auto adds = [&](const HfParts& parts) {
    return adds_words(one.load(), HfFiles(parts.text()).load());
  };
  EXPECT_TRUE(adds(more));
  EXPECT_FALSE(adds_words(HfFiles(more.text()).load(), one.load()));
  for (const HfParts& other : {plain, lower, renamed, taken}) EXPECT_FALSE(adds(other));
}

// Megatron's GPT2BPETokenizer reads <|endoftext|> in a text as letters, transformers' as the token.
TEST(SameIds, WhereOneFindsASpecialTokenInATextAlone) {
  HfParts parts;
  parts.added_tokens = "[" + hf_added(9, "<x>", "special") + "]";
  HfParts unnamed = parts;
  unnamed.added_tokens = "[" + hf_added(9, "<x>", "single_word") + "]";
  const char* const ended = R"({"eos_token":"<x>"})";
  const HfFiles one(parts.text(), ended), other(unnamed.text(), ended);
  const auto ids = [](const Tokenizer& tokenizer) {
    std::vector<std::int32_t> found;
    tokenizer.encode("a<x>b", found);
    return found;
  };
  ASSERT_NE(ids(one.load()), ids(other.load()));
  EXPECT_TRUE(same_ids(one.load(), other.load()));
}

TEST(PutInFront, IsWhatAllTextsBeginWith) {
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(put_in_front(*gpt2()), Ids{});
  HfParts parts;
  const auto with = [&](const std::string& single) {
    HfParts made = parts;
    made.post_processor =
        R"({"type":"TemplateProcessing","single":[)" + single + R"(],"pair":[],"special_tokens":)" +
        R"({"a":{"id":"a","ids":[0],"tokens":["a"]},"b":{"id":"b","ids":[1],"tokens":["b"]}}})";
    return put_in_front(HfFiles(made.text()).load());
  };
  const std::string a = R"({"SpecialToken":{"id":"a","type_id":0}})",
                    b = R"({"SpecialToken":{"id":"b","type_id":0}})",
                    text = R"({"Sequence":{"id":"A","type_id":0}})";
  EXPECT_EQ(with(text), Ids{});
  EXPECT_EQ(with(a + "," + text), (Ids{0}));
  EXPECT_EQ(with(a + "," + b + "," + text), (Ids{0, 1}));
}

}  // namespace
}  // namespace mt
