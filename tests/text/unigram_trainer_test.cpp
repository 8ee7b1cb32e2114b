#include "text/training/unigram_trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "base/threads.h"
#include "tests/base/scratch.h"
#include "text/sentencepiece/sentencepiece.h"

namespace mt {
namespace {

using Type = SentencePieceModel::Type;
constexpr int kSpecial = UnigramTrainer::kSpecialPieces;

SentencePieceModel train(const std::vector<std::string>& texts, int vocab_size) {
  UnigramTrainer trainer;
  for (const std::string& text : texts) trainer.add(text);
  return trainer.train(vocab_size);
}

std::map<std::string, float> scores_of(const SentencePieceModel& model) {
  std::map<std::string, float> scores;
  for (const SentencePieceModel::Piece& piece : model.pieces)
    if (piece.type == Type::normal) scores[piece.text] = piece.score;
  return scores;
}

// Words of up to four syllables, of which some are far more frequent than others.
std::vector<std::string> babble(int texts) {
  constexpr const char* kSyllables[] = {"ba", "ko", "lim", "tru", "sen", "o", "wex", "pi"};
  std::mt19937 random(1);
  const auto syllable = [&] { return kSyllables[std::min(random() % 8, random() % 8)]; };
  std::vector<std::string> all(static_cast<std::size_t>(texts));
  for (std::string& text : all)
    for (unsigned n = 3 + random() % 30; n > 0; --n)
      text += concat(text.empty() || random() % 3 > 0 ? "" : " ", syllable());
  return all;
}

std::vector<std::int32_t> encode(const SentencePieceModel& model, std::string_view text) {
  std::vector<std::int32_t> ids;
  SentencePiece(sentencepiece_model_content(model), "m").encode(text, ids);
  return ids;
}

}  // namespace

TEST(UnigramTrainer, SpecialPiecesThenPiecesByScore) {
  const SentencePieceModel model = train(babble(200), 300);
  ASSERT_EQ(model.pieces.size(), 300u);
  EXPECT_EQ(model.pieces[0].text, "<unk>");
  EXPECT_EQ(model.pieces[1].text, "<s>");
  EXPECT_EQ(model.pieces[2].text, "</s>");
  EXPECT_EQ(model.pieces[3].text, "<0x00>");
  EXPECT_EQ(model.pieces[kSpecial - 1].text, "<0xFF>");
  for (std::size_t id = kSpecial + 1; id < model.pieces.size(); ++id)
    EXPECT_LE(model.pieces[id].score, model.pieces[id - 1].score) << id;
}

// One word: the probabilities that expectation maximization leads to can be had by hand.
TEST(UnigramTrainer, ScoresAreDigammasOfExpectedCounts) {
  // " " and "a" are characters, " a" is a seed; after the seed, of 1000, 1000 and 2 x 1000 of 4000,
  // c[" a"] = 1000 x 0.5 / (0.5 + 0.25 x 0.25), c["a"] = c[" "] = the rest.
  const std::vector<std::string> texts(1000, "a");
  const auto scores = scores_of(train(texts, kSpecial + 3));
  double whole = 1000 * 0.5 / (0.5 + 0.0625), rest = 1000 - whole;
  const auto digamma = [](double x) { return std::log(x) - 0.5 / x - 1 / (12 * x * x); };
  const double sum = digamma(whole + 2 * rest);
  const double p = std::exp(digamma(whole) - sum), q = std::exp(digamma(rest) - sum);
  whole = 1000 * p / (p + q * q);
  rest = 1000 - whole;
  EXPECT_NEAR(scores.at("\u2581a"), digamma(whole) - digamma(whole + 2 * rest), 1e-5);
  EXPECT_NEAR(scores.at("a"), digamma(rest) - digamma(whole + 2 * rest), 1e-5);
  EXPECT_FLOAT_EQ(scores.at("a"), scores.at("\u2581"));
}

TEST(UnigramTrainer, FindsTheSyllables) {
  const auto scores = scores_of(train(babble(2000), kSpecial + 40));
  for (const char* syllable : {"ba", "ko", "lim", "tru", "\u2581ba", "\u2581ko", "\u2581lim"})
    EXPECT_TRUE(scores.contains(syllable)) << syllable;
}

TEST(UnigramTrainer, NoPieceReachesBeyondAWord) {
  std::vector<std::string> texts(50, "key1 key1\nkey1\tkey1 \u043D\u0435key \u30AB\u6F22\u304B.");
  for (const auto& [text, score] : scores_of(train(texts, kSpecial + 15))) {
    EXPECT_EQ(text.find("y1"), text.npos) << text;         // Latin, then Common
    EXPECT_EQ(text.find('\n'), text.npos) << text;         // control characters
    EXPECT_EQ(text.find("\u0435k"), text.npos) << text;    // Cyrillic, then Latin
    EXPECT_EQ(text.find("\u2581", 1), text.npos) << text;  // spaces begin words
  }
  EXPECT_TRUE(scores_of(train(texts, kSpecial + 15)).contains("\u2581\u30AB\u6F22\u304B"));
}

TEST(UnigramTrainer, RareCharactersAreBytes) {
  std::vector<std::string> texts = babble(2000);
  texts.push_back("ba\u00E9ba");
  const SentencePieceModel model = train(texts, 300);
  EXPECT_FALSE(scores_of(model).contains("\u00E9"));
  const std::vector<std::int32_t> ids = encode(model, "\u00E9");
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_EQ(ids[1], model.byte_ids[0xC3]);
  EXPECT_EQ(ids[2], model.byte_ids[0xA9]);
}

TEST(UnigramTrainer, TextsComeBackAsTheyWere) {
  const SentencePieceModel model = train(babble(200), 300);
  const SentencePiece tokenizer(sentencepiece_model_content(model), "m");
  for (const std::string text : {"bako  lim ", " ba\tko\n\n  x", "\u00E9\u6F22 <s>", ""}) {
    std::vector<std::int32_t> ids;
    tokenizer.encode(text, ids);
    EXPECT_EQ(tokenizer.decode(ids), text);
  }
}

TEST(UnigramTrainer, TheSameWhateverTheThreadsAndTheOrder) {
  const std::vector<std::string> texts = babble(500);
  const std::string expected = sentencepiece_model_content(train(texts, 320));
  UnigramTrainer first, second;
  for (std::size_t i = texts.size(); i-- > 0;) (i % 3 == 0 ? first : second).add(texts[i]);
  first.counts().merge(second.counts());
  for (const int threads : {1, 4}) {
    std::string content;
    Workers(threads).run([&] { content = sentencepiece_model_content(first.train(320)); });
    EXPECT_EQ(content, expected) << threads << " threads";
  }
}

TEST(UnigramTrainer, SizesItCannotMake) {
  EXPECT_EQ(error_of([] { train({"abc"}, kSpecial); }),
            "64 vocabulary of 259 pieces, expected at least 260");
  EXPECT_EQ(error_of([] { train({"abc"}, kSpecial + 3); }),
            "65 vocabulary of 262 pieces: the texts' characters need at least 263");
  EXPECT_EQ(error_of([] { train({"abc"}, kSpecial + 5); }),
            "65 vocabulary of 264 pieces: the texts give at most 263");
  EXPECT_EQ(error_of([] { train({}, kSpecial + 1); }),
            "65 vocabulary of 260 pieces: the texts give at most 259");
}

TEST(UnigramTrainer, ACheckpointThatThrowsEndsIt) {
  UnigramTrainer trainer;
  trainer.add("ab ab");
  EXPECT_EQ(error_of([&] { trainer.train(262, [] { fail(Exit::stopped, "now"); }); }), "75 now");
}

TEST(UnigramTrainer, ALongWordIsCut) {
  UnigramTrainer trainer;
  for (int i = 0; i < 3; ++i) trainer.add(std::string(100000, 'a'));
  EXPECT_EQ(trainer.train(kSpecial + 4).pieces.size(), kSpecial + 4u);
}

TEST(UnigramTrainer, FilesWithoutCommitLeaveNothing) {
  Scratch scratch;
  { SentencePieceFiles(scratch.path("new/folder"), false); }
  EXPECT_FALSE(std::filesystem::exists(scratch.path("new/folder")));
  SentencePieceFiles(scratch.path("tok"), false).commit(train({"ab ab"}, kSpecial + 3));
  const std::string path = scratch.path("tok/tokenizer.model");
  EXPECT_EQ(SentencePiece(read_file(path), path).size(), kSpecial + 3);
  EXPECT_EQ(error_of([&] { SentencePieceFiles(scratch.path("tok"), false); }).substr(0, 3), "73 ");
}

}  // namespace mt
