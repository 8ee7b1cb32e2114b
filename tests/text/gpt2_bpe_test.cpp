#include "text/bpe/gpt2_bpe.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/utf8.h"
#include "tests/text/gpt2_files.h"

namespace mt {

using Ids = std::vector<std::int32_t>;

TEST(Gpt2Bpe, Specification) {
  const Gpt2Bpe tokenizer = Gpt2Files(vocabulary_of(kLowTokens), kLowMerges).load();
  EXPECT_EQ(encode(tokenizer, "lower newer low"), (Ids{257, 258, 262, 258, 259}));
  EXPECT_EQ(encode(tokenizer, "lolow"), (Ids{256, 257}));
  EXPECT_EQ(encode(tokenizer, "<|endoftext|>"),
            (Ids{60, 124, 101, 110, 100, 111, 102, 116, 101, 120, 116, 124, 62}));
  EXPECT_EQ(encode(tokenizer, ""), Ids{});
  EXPECT_EQ(tokenizer.vocab_size(), 264);
  EXPECT_EQ(tokenizer.eod(), 263);
  EXPECT_EQ(tokenizer.type(), "GPT2BPETokenizer");
}

TEST(Gpt2Bpe, AppendsIds) {
  const Gpt2Bpe tokenizer = Gpt2Files(vocabulary_of(kLowTokens), kLowMerges).load();
  Ids ids = {5};
  tokenizer.encode("low", ids);
  tokenizer.encode(" low", ids);
  EXPECT_EQ(ids, (Ids{5, 257, 259}));
}

TEST(Gpt2Bpe, WithoutAFinalNewlineTheLastMergeIsLost) {
  std::string merges = kLowMerges;
  merges.pop_back();
  const Gpt2Bpe tokenizer = Gpt2Files(vocabulary_of(kLowTokens), merges).load();
  EXPECT_EQ(encode(tokenizer, " new"), (Ids{32, 261}));
  EXPECT_EQ(encode(tokenizer, " low"), (Ids{259}));
}

TEST(Gpt2Bpe, MergesAsPythonReadsThem) {  // line ends of any kind, blank lines, a pair twice
  const std::string merges = "skipped\r\nl  o\r\n\r\nlo\tw\re r\n \n Ġ low \nn e\nne w\nl o\n";
  const Gpt2Bpe tokenizer = Gpt2Files(vocabulary_of(kLowTokens), merges).load();
  EXPECT_EQ(encode(tokenizer, "lower newer low"), (Ids{257, 258, 32, 261, 258, 259}));
}

TEST(Gpt2Bpe, AByteThatIsNoTokenIsZero) {
  const Gpt2Bpe tokenizer =
      Gpt2Files("{\"!\": 0, \"b\": 1, \"ab\": 2, \"<|endoftext|>\": 3}", "#\na b\n").load();
  EXPECT_EQ(encode(tokenizer, "a"), (Ids{0}));
  EXPECT_EQ(encode(tokenizer, "abb"), (Ids{2, 1}));
}

TEST(Gpt2Bpe, IllFormedTextIsReadAsReplaced) {
  const Gpt2Bpe tokenizer = Gpt2Files(vocabulary_of(kLowTokens), kLowMerges).load();
  EXPECT_EQ(encode(tokenizer, "\xFFlow\xC3"), (Ids{239, 191, 189, 257, 239, 191, 189}));
}

TEST(Gpt2Bpe, Decode) {
  const Gpt2Bpe tokenizer = Gpt2Files(vocabulary_of({"lo", "\u6C34"}), "#\nl o\n").load();
  EXPECT_EQ(tokenizer.decode(Ids{256, 32, 256, 258}), "lo lo<|endoftext|>");
  EXPECT_EQ(tokenizer.decode(Ids{0xC3, 0xA9, 0xC3}), "\u00E9\xC3");
  EXPECT_EQ(tokenizer.decode_text(Ids{0xC3, 0xA9, 0xC3}), "\u00E9\uFFFD");
  EXPECT_EQ(tokenizer.decode(Ids{257}), "\u6C34");  // of no bytes: the token's own text
  EXPECT_EQ(tokenizer.decode(Ids{}), "");
  EXPECT_EQ(error_of([&] { tokenizer.decode(Ids{259}); }), "65 token id 259, expected 0 to 258");
  EXPECT_EQ(error_of([&] { tokenizer.decode(Ids{-1}); }), "65 token id -1, expected 0 to 258");
}

TEST(Gpt2Bpe, DecodesAsAStream) {
  const Gpt2Bpe tokenizer = Gpt2Files(vocabulary_of(kLowTokens), kLowMerges).load();
  const auto stream = tokenizer.stream_decoder();
  std::string text;
  for (const std::int32_t id : {257, 0xE6, 0xB0}) stream->push(id, text);
  EXPECT_EQ(text, "low");
  stream->push(0xB4, text);
  EXPECT_EQ(text, "low\u6C34");
  stream->push(0xE6, text);
  stream->finish(text);
  EXPECT_EQ(text, "low\u6C34\uFFFD");
}

TEST(Gpt2Bpe, IdentityFollowsTheFiles) {
  const std::string low = vocabulary_of(kLowTokens);
  const std::string identity = Gpt2Files(low, kLowMerges).load().identity();
  EXPECT_EQ(identity.size(), 32u);
  EXPECT_EQ(Gpt2Files(low, kLowMerges).load().identity(), identity);
  EXPECT_NE(Gpt2Files(low, kLowMerges + "\n").load().identity(), identity);
  EXPECT_NE(Gpt2Files(low + " ", kLowMerges).load().identity(), identity);
}

TEST(Gpt2Bpe, RefusesVocabularies) {
  const auto error = [](const std::string& vocab) { return Gpt2Files(vocab, "#\n").load_error(); };
  EXPECT_EQ(error("{\"a\": 0, \"b\": 0}"), "65 vocab.json: token b: id 0 is there twice");
  EXPECT_EQ(error("{\"a\": 0, \"a\": 1}"), "65 vocab.json: token a is there twice");
  EXPECT_EQ(error("{\"a\": 0, \"b\": 2}"),
            "65 vocab.json: token b: id 2, expected a number from 0 to 1, for 2 tokens");
  EXPECT_EQ(error("{\"a\": -1}"),
            "65 vocab.json: token a: id -1, expected a number from 0 to 0, for 1 tokens");
  EXPECT_EQ(error("{\"a\": 0.5}"),
            "65 vocab.json: token a: id 0.5, expected a number from 0 to 0, for 1 tokens");
  EXPECT_EQ(error("{\"a\": 99999999999999999999}").substr(0, 15), "65 vocab.json: ");
  EXPECT_EQ(error("{\"a\": 0}"), "65 vocab.json: no token <|endoftext|>");
  EXPECT_EQ(error("{}"), "65 vocab.json: no token <|endoftext|>");
  EXPECT_EQ(error("[1]"), "65 vocab.json: expected a JSON object, token -> id");
  EXPECT_EQ(error("").substr(0, 15), "65 vocab.json: ");
  EXPECT_EQ(error("{\"a\": 0").substr(0, 15), "65 vocab.json: ");
}

TEST(Gpt2Bpe, RefusesMerges) {
  const auto error = [](const std::string& merges) {
    return Gpt2Files(vocabulary_of({"lo", "\u6C34", "o\u6C34"}), merges).load_error();
  };
  EXPECT_EQ(error("#\nl o\nl o w\n"), "65 merges.txt:3: 3 words, expected two tokens");
  EXPECT_EQ(error("#\nlo\n"), "65 merges.txt:2: 1 words, expected two tokens");
  EXPECT_EQ(error("#\nlo w\n"), "65 merges.txt:2: low is no token of the vocabulary");
  EXPECT_EQ(error("#\nxy l\n"), "65 merges.txt:2: xy is no token of the vocabulary");
  EXPECT_EQ(error("#\n\no \u6C34\n"), "65 merges.txt:3: \u6C34 has a character that is no byte's");
  EXPECT_EQ(error("#\nl o\xFF\n"), "65 merges.txt: not UTF-8");
  EXPECT_EQ(error(""), "");  // no merges at all
}

TEST(Gpt2Bpe, FilesCutAnywhere) {
  const std::string vocabulary = vocabulary_of(kLowTokens);
  for (std::size_t i = 0; i < 200; ++i) {
    const std::string cut = vocabulary.substr(0, vocabulary.size() * i / 200);
    EXPECT_TRUE(Gpt2Files(cut, kLowMerges).load_error().starts_with("65 vocab.json: byte ")) << i;
  }
  // Of merges the last one is lost, as Megatron reads them, or what is left is no merge.
  for (std::size_t size = 0; size < kLowMerges.size(); ++size) {
    const std::string error = Gpt2Files(vocabulary, kLowMerges.substr(0, size)).load_error();
    EXPECT_TRUE(error.empty() || error.starts_with("65 merges.txt:")) << error;
  }
}

TEST(Gpt2Bpe, RefusesMissingFiles) {
  Scratch folder;
  EXPECT_EQ(error_of([&] { Gpt2Bpe(folder.path("v"), folder.path("m")); }).substr(0, 3), "66 ");
}

static std::string random_text(std::mt19937& random) {
  static const std::string_view parts[] = {"low",  " low", "new",  "er", " ",    "\n",     "'s",
                                           "\xE6", "\xB0", "\xB4", "1",  "\xFF", "\u00E9", "!"};
  std::string text;
  for (unsigned n = random() % 30; n > 0; --n) text += parts[random() % std::size(parts)];
  return text;
}

TEST(Gpt2Bpe, DecodeOfEncodeIsTheReplacedText) {
  const Gpt2Bpe tokenizer = Gpt2Files(vocabulary_of(kLowTokens), kLowMerges).load();
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    const std::string text = random_text(random);
    const Ids ids = encode(tokenizer, text);
    ASSERT_EQ(tokenizer.decode(ids), replace_invalid_utf8(text));
    const auto stream = tokenizer.stream_decoder();
    std::string streamed;
    for (const std::int32_t id : ids) stream->push(id, streamed);
    stream->finish(streamed);
    ASSERT_EQ(streamed, replace_invalid_utf8(text));
  }
}

// Many pieces that share entries of the cache, encoded warm, cold and by several threads at once.
TEST(Gpt2Bpe, TheCacheChangesNothing) {
  const Gpt2Files files(vocabulary_of(kLowTokens), kLowMerges);
  const Gpt2Bpe tokenizer = files.load();
  std::string text;
  for (int i = 0; i < 200000; ++i)
    text += " low" + std::to_string(i) + (i % 3 ? "er" : "newnewnewnew");
  const Ids cold = encode(files.load(), text);
  EXPECT_EQ(tokenizer.decode(cold), text);
  std::vector<Ids> results(4);
  std::vector<std::thread> threads;
  for (Ids& ids : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2; ++i) ids = encode(tokenizer, text);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ids& ids : results) EXPECT_EQ(ids, cold);
}

}  // namespace mt
