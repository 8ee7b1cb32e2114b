#include "text/bert/bert_tokenizer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/file.h"
#include "tests/base/scratch.h"
#include "tests/text/gpt2_files.h"
#include "tests/text/hex.h"
#include "text/bert/word_piece.h"

namespace mt {
namespace {

using Ids = std::vector<std::int32_t>;

const std::string kVocabulary = MT_TESTDATA "/wordpiece/vocab.txt";
const std::string kSpecials = "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\n";

std::string streamed(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  const auto decoder = tokenizer.stream_decoder();
  for (int twice = 0; twice < 2; ++twice) {  // it starts anew
    text.clear();
    for (const std::int32_t id : ids) decoder->push(id, text);
    decoder->finish(text);
  }
  return text;
}

// A tokenizer of the special tokens and these lines, or what loading them throws.
BertTokenizer tokenizer_of(const Scratch& folder, const std::string& lines,
                           std::string_view type = BertTokenizer::kLowerCaseType) {
  write_file_atomically(folder.path("vocab.txt"), kSpecials + lines, true);
  return BertTokenizer(type, folder.path("vocab.txt"), 0);
}

}  // namespace

TEST(BertGolden, IdsAndTextsOfMegatron) {
  std::ifstream cases(MT_TESTDATA "/wordpiece/cases.txt");
  int count = 0;
  for (std::string line; std::getline(cases, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream columns(line);
    std::string type, text, ids, decoded;
    columns >> type >> text >> ids >> decoded;
    const BertTokenizer tokenizer(type, kVocabulary, 0);
    EXPECT_EQ(encode(tokenizer, from_hex(text)), from_list(ids)) << line;
    EXPECT_EQ(tokenizer.decode(from_list(ids)), from_hex(decoded)) << line;
    ++count;
  }
  EXPECT_GT(count, 120);
}

TEST(BertTokenizer, SpecialTokensAreAdded) {
  const BertTokenizer tokenizer(BertTokenizer::kCaseType, kVocabulary, 3);
  const BertTokenizer plain(BertTokenizer::kCaseType, kVocabulary, 0);
  EXPECT_EQ(tokenizer.vocab_size(), plain.vocab_size() + 3);
  EXPECT_EQ(tokenizer.eod(), plain.vocab_size() - 1);
  EXPECT_EQ(tokenizer.token(tokenizer.eod() - 1), "[BOS]");
  EXPECT_EQ(tokenizer.token(tokenizer.eod()), "[EOS]");
  EXPECT_EQ(tokenizer.token(tokenizer.vocab_size() - 1), "<extra_id_2>");
  const SpecialTokens special = tokenizer.special_ids();
  for (const auto& [id, token] : {std::pair{special.cls, "[CLS]"},
                                  {special.sep, "[SEP]"},
                                  {special.mask, "[MASK]"},
                                  {special.pad, "[PAD]"},
                                  {special.bos, "[BOS]"},
                                  {special.eos, "[EOS]"},
                                  {special.extra.at(2), "<extra_id_2>"}})
    EXPECT_EQ(tokenizer.token(id), token);
  EXPECT_TRUE(plain.special_ids().extra.empty());
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    EXPECT_EQ(tokenizer.continues_word(id), tokenizer.token(id).substr(0, 2) == "##");
  EXPECT_EQ(tokenizer.identity(), plain.identity());
  EXPECT_NE(tokenizer.identity(),
            BertTokenizer(BertTokenizer::kLowerCaseType, kVocabulary, 0).identity());
  EXPECT_THROW(tokenizer.decode(Ids{tokenizer.vocab_size()}), Error);
  EXPECT_THROW(tokenizer.decode(Ids{-1}), Error);
  const Scratch folder;
  EXPECT_EQ(tokenizer_of(folder, "[EOS]").eod(), 5);
}

TEST(BertTokenizer, LinesOfTheVocabulary) {
  const Scratch folder;
  const BertTokenizer tokenizer = tokenizer_of(folder,
                                               " a \r\n\n\xC2\xA0"
                                               "b\u2003\rc");
  EXPECT_EQ(tokenizer.vocab_size(), 5 + 4 + 2);
  EXPECT_EQ(encode(tokenizer, "a b c d"), (Ids{5, 7, 8, 0}));
  const auto error = [&](const std::string& content) {
    const std::string path = folder.path("wrong.txt");
    write_file_atomically(path, content, true);
    const std::string line = error_of([&] { BertTokenizer(BertTokenizer::kCaseType, path, 0); });
    return line.substr(line.find("wrong.txt"));
  };
  EXPECT_EQ(error("[UNK]\n[CLS]\n"), "wrong.txt: no token [SEP]");
  EXPECT_EQ(error(""), "wrong.txt: no token [UNK]");
  EXPECT_EQ(error("a\nb\na\n"), "wrong.txt:3: token a is there twice");
  EXPECT_EQ(error("a\xFF\n"), "wrong.txt: not UTF-8");
}

// Each beginning of a vocabulary is one, if it has the tokens that BERT needs.
TEST(BertTokenizer, AVocabularyCutAnywhereIsSmallerOrRefused) {
  const Scratch folder;
  const std::string path = folder.path("cut.txt"), whole = read_file(kVocabulary);
  for (std::size_t i = 0; i < 200; ++i) {
    const std::string cut = whole.substr(0, whole.size() * i / 200);
    write_file_atomically(path, cut, true);
    const std::string line = error_of([&] { BertTokenizer(BertTokenizer::kCaseType, path, 0); });
    if (cut.find("[MASK]") == cut.npos)
      EXPECT_TRUE(line.starts_with(concat("65 ", path, ": no token ["))) << i << line;
    else
      EXPECT_TRUE(line.empty() || line.starts_with(concat("65 ", path, ":"))) << i << line;
  }
}

// What is shown while tokens come is what they decode to at the end, however they are joined.
TEST(BertTokenizer, StreamsOfAnyTokens) {
  const Scratch folder;
  const BertTokenizer tokenizer = tokenizer_of(
      folder, ".\n'\nn\nt\ns\nm\nve\nre\n##s\n##\n\n!\na\nthe\n##'\n##n\n'm\nn't\n,\n");
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    Ids ids(random() % 12);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(5 + random() % 19);
    ASSERT_EQ(streamed(tokenizer, ids), tokenizer.decode(ids));
  }
  const Ids dont = {17, 7, 6, 8};  // a n ' t: nothing of it is certain before the next word
  EXPECT_EQ(tokenizer.decode(dont), "an't");
}

TEST(BertTokenizer, LongInputsTakeLinearTime) {  // or this does not end
  const BertTokenizer tokenizer(BertTokenizer::kLowerCaseType, kVocabulary, 0);
  for (const char* part : {"a", "'", "Σ", "'Σ", "\u0301", "\u302e", "日", "\xFF"}) {
    std::string text;
    while (text.size() < 1000000) text += part;
    EXPECT_LE(encode(tokenizer, text).size(), text.size());
  }
}

TEST(WordPiece, LongestPiecesFirst) {
  const WordPiece pieces({{"a", 1}, {"ab", 2}, {"##c", 3}, {"##cd", 4}, {"##", 5}},
                         {.unknown = 0, .longest_word = 6});
  const auto ids_of = [&](std::string_view word) {
    Ids ids;
    pieces.encode(word, ids);
    return ids;
  };
  EXPECT_EQ(ids_of("abcdc"), (Ids{2, 4, 3}));
  EXPECT_EQ(ids_of("abx"), Ids{0});
  EXPECT_EQ(ids_of("accccc"), (Ids{1, 3, 3, 3, 3, 3}));
  EXPECT_EQ(ids_of("acccccc"), Ids{0});
}

}  // namespace mt
