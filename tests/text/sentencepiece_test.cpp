#include "text/sentencepiece/sentencepiece.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "base/utf8.h"
#include "tests/text/gpt2_files.h"
#include "tests/text/hex.h"
#include "tests/text/sentencepiece_files.h"
#include "text/sentencepiece/scored_bpe.h"
#include "text/sentencepiece/sentencepiece_tokenizer.h"

namespace mt {
namespace {

using Ids = std::vector<std::int32_t>;
using Type = SentencePieceModel::Type;
using Algorithm = SentencePieceModel::Algorithm;

const std::string kFolder = MT_TESTDATA "/sentencepiece/";

Ids ids_of(const SentencePiece& model, std::string_view text) {
  Ids ids;
  model.encode(text, ids);
  return ids;
}

SentencePiece model_of(Algorithm algorithm, const std::vector<SentencePieceModel::Piece>& pieces,
                       const std::string& trainer = {}, const std::string& normalizer = {}) {
  return {small_model(algorithm, pieces, trainer, normalizer), "m"};
}

std::string streamed(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  const auto decoder = tokenizer.stream_decoder();
  for (const std::int32_t id : ids) decoder->push(id, text);
  decoder->finish(text);
  return text;
}

}  // namespace

TEST(SentencePieceGolden, IdsAndTextsOfTheLibrary) {
  std::ifstream cases(kFolder + "cases.txt");
  int count = 0;
  for (std::string line; std::getline(cases, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream columns(line);
    std::string name, text, ids, decoded;
    columns >> name >> text >> ids >> decoded;
    const SentencePieceModelTokenizer tokenizer("GPTSentencePieceTokenizer",
                                                kFolder + name + ".model");
    EXPECT_EQ(encode(tokenizer, from_hex(text)), from_list(ids)) << line;
    EXPECT_EQ(tokenizer.decode(from_list(ids)), from_hex(decoded)) << line;
    EXPECT_EQ(streamed(tokenizer, from_list(ids)), from_hex(decoded)) << line;
    ++count;
  }
  EXPECT_GT(count, 150);
}

TEST(SentencePiece, RealModel) {
  const std::string path = MT_SHARED "/data/sentencepiece/test_model.model";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const SentencePiece model(read_file(path), path);
  EXPECT_EQ(model.size(), 1000);
  EXPECT_EQ(ids_of(model, "Hello world."), (Ids{151, 88, 21, 887, 6}));
  EXPECT_EQ(model.decode(Ids{151, 88, 21, 887, 6}), "Hello world.");
}

// A text's pieces do not depend on what the cache holds, nor on where its words are cut.
TEST(SentencePiece, TheCacheChangesNothing) {
  for (const char* name : {"unigram", "bpe", "words"}) {
    const std::string content = read_file(kFolder + name + ".model");
    const SentencePiece warm(content, name);
    std::string text;
    for (int i = 0; i < 3000; ++i) text += concat(" Tom ", i * 7919 % 1000, " the dogs-", i % 13);
    const Ids first = ids_of(warm, text);
    EXPECT_EQ(ids_of(warm, text), first) << name;
    EXPECT_EQ(ids_of(SentencePiece(content, name), text), first) << name;
    if (warm.size() > 500) {  // bpe, which has bytes for any character
      EXPECT_EQ(warm.decode(first), text);
    }
  }
}

TEST(SentencePiece, ThreadsShareAModel) {
  const SentencePiece model(read_file(kFolder + "unigram.model"), "m");
  const Ids expected = ids_of(model, "Tom has a cat. The cat is old.");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i)
        EXPECT_EQ(ids_of(model, "Tom has a cat. The cat is old."), expected);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(SentencePiece, TiesGoToTheLongestLastPiece) {
  const SentencePiece model =
      model_of(Algorithm::unigram,
               {{"▁", -1, Type::normal}, {"a", -2, Type::normal}, {"aa", -3, Type::normal}});
  EXPECT_EQ(ids_of(model, "aaa"), (Ids{3, 4, 5}));
  EXPECT_EQ(ids_of(model, "aaaa"), (Ids{3, 5, 5}));
}

TEST(SentencePiece, LongTextsAreRebased) {  // the sums of scores stay in float's exact range
  const SentencePiece model =
      model_of(Algorithm::unigram, {{"▁", -1, Type::normal}, {"a", -10, Type::normal}});
  EXPECT_EQ(ids_of(model, std::string(50000, 'a')).size(), 50001u);
}

TEST(SentencePiece, UserDefinedPiecesComeFirst) {
  for (const Algorithm algorithm : {Algorithm::unigram, Algorithm::bpe}) {
    const SentencePiece model = model_of(algorithm, {{"▁a", -1, Type::normal},
                                                     {"a", -1, Type::normal},
                                                     {"b", -1, Type::normal},
                                                     {"bb", -1, Type::normal},
                                                     {"ab", 0, Type::user_defined},
                                                     {"▁", -0.5f, Type::normal}});
    EXPECT_EQ(ids_of(model, "abb"), (Ids{8, 7, 5}));
  }
}

TEST(SentencePiece, UnusedPiecesAreTakenApart) {
  const std::vector<SentencePieceModel::Piece> pieces = {
      {"a", -5, Type::normal},  {"b", -5, Type::normal},   {"c", -5, Type::normal},
      {"ab", -1, Type::unused}, {"abc", -2, Type::unused}, {"▁", -5, Type::normal}};
  EXPECT_EQ(ids_of(model_of(Algorithm::bpe, pieces), "abc"), (Ids{8, 3, 4, 5}));
  EXPECT_EQ(ids_of(model_of(Algorithm::unigram, pieces), "abc"), (Ids{8, 3, 4, 5}));
}

TEST(SentencePiece, UnusedCharactersAndWordsAreUnknown) {
  const SentencePiece characters =
      model_of(Algorithm::characters,
               {{"▁", -1, Type::normal}, {"a", -1, Type::normal}, {"b", -1, Type::unused}});
  EXPECT_EQ(ids_of(characters, "aba"), (Ids{3, 4, 0, 4}));
  const SentencePiece words = model_of(Algorithm::words, {{"▁a", -1, Type::normal},
                                                          {"▁b", -1, Type::unused},
                                                          {"▁c", 0, Type::user_defined},
                                                          {"▁d", 0, Type::control}});
  EXPECT_EQ(ids_of(words, "a b c d a"), (Ids{3, 0, 5, 0, 3}));
}

TEST(SentencePiece, WordsBeginWithMarks) {
  const std::vector<SentencePieceModel::Piece> pieces = {
      {"▁", -1, Type::normal}, {"▁a", -1, Type::normal}, {"a", -1, Type::normal}};
  const auto with = [&](const std::string& trainer, const std::string& normalizer) {
    return model_of(Algorithm::words, pieces, trainer, normalizer);
  };
  const std::string kept = proto_integer(4, 0);  // remove_extra_whitespaces
  EXPECT_EQ(ids_of(with({}, kept), "a  a▁a "), (Ids{4, 3, 4, 4, 3}));
  EXPECT_EQ(ids_of(with(proto_integer(24, 1), kept), "a a"), (Ids{5, 4, 3}));
  // Where spaces are no marks, a word has them.
  EXPECT_EQ(ids_of(with({}, proto_integer(3, 0) + proto_integer(5, 0)), "a▁a a"), (Ids{5, 0}));
  EXPECT_EQ(ids_of(with({}, proto_integer(3, 0)), concat("a ", std::string(40, 'b'), " a")),
            (Ids{5, 0, 4}));
}

TEST(SentencePiece, ARunOfUnknownPiecesIsOne) {
  const SentencePiece model =
      model_of(Algorithm::bpe, {{"a", -1, Type::normal}, {"▁", -1, Type::normal}});
  EXPECT_EQ(ids_of(model, "xyazz"), (Ids{4, 0, 3, 0}));
  EXPECT_EQ(model.decode(Ids{4, 0, 3, 0}), " \u2047 a \u2047 ");
  EXPECT_EQ(ids_of(model_of(Algorithm::bpe, {{"a", -1, Type::normal}}), "x x"), Ids{0});
}

TEST(SentencePiece, SpacesBehindWords) {
  const SentencePiece model =
      model_of(Algorithm::unigram,
               {{"a", -3, Type::normal}, {"a▁", -1, Type::normal}, {"▁", -4, Type::normal}},
               proto_integer(24, 1));
  EXPECT_EQ(ids_of(model, " a  a "), (Ids{4, 4}));
}

TEST(SentencePiece, DamagedInputIsReplacedByteByByte) {
  const SentencePiece model =
      model_of(Algorithm::bpe,
               {{"\uFFFD", -1, Type::normal}, {"a", -1, Type::normal}, {"▁", -1, Type::normal}});
  EXPECT_EQ(ids_of(model,
                   "\xE2\x96"
                   "a\xFF"),
            (Ids{5, 3, 3, 4, 3}));
}

TEST(Llama2Tokenizer, TextsBeginWithBos) {
  const SentencePieceModelTokenizer tokenizer("Llama2Tokenizer", kFolder + "bpe.model");
  const SentencePieceModelTokenizer plain("GPTSentencePieceTokenizer", kFolder + "bpe.model");
  EXPECT_EQ(encode(tokenizer, ""), Ids{1});
  Ids expected = encode(plain, "Tom has a cat.");
  expected.insert(expected.begin(), 1);
  EXPECT_EQ(encode(tokenizer, "Tom has a cat."), expected);
  EXPECT_EQ(tokenizer.decode(expected), "Tom has a cat.");
  EXPECT_EQ(tokenizer.eod(), 2);
  EXPECT_NE(tokenizer.identity(), plain.identity());
  EXPECT_THROW(tokenizer.decode(Ids{tokenizer.vocab_size()}), Error);
  EXPECT_THROW(tokenizer.decode(Ids{-1}), Error);
}

TEST(SentencePieceTokenizer, SpecialTokens) {
  const SentencePieceTokenizer tokenizer(kFolder + "unigram.model", 2);
  const SentencePieceModelTokenizer plain("GPTSentencePieceTokenizer", kFolder + "unigram.model");
  const std::int32_t n = plain.vocab_size();  // <CLS> <SEP> <EOD> <MASK> <PAD> <extra_id_0> _1
  EXPECT_EQ(tokenizer.vocab_size(), n + 7);
  EXPECT_EQ(tokenizer.eod(), n + 2);
  EXPECT_EQ(encode(tokenizer, "<MASK><extra_id_1><s></s><PAD>"), (Ids{n + 3, n + 6, 1, 2, n + 4}));
  const SpecialTokens special = tokenizer.special_ids();
  EXPECT_EQ((Ids{special.cls, special.sep, special.mask, special.pad, special.bos, special.eos}),
            (Ids{n, n + 1, n + 3, n + 4, 1, 2}));
  EXPECT_EQ(special.extra, (Ids{n + 5, n + 6}));
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    EXPECT_FALSE(tokenizer.continues_word(id)) << "no piece of the model begins with ##";
  Ids expected = encode(plain, "Tom ");
  expected.push_back(n);
  for (const std::int32_t id : encode(plain, " has <CL")) expected.push_back(id);
  EXPECT_EQ(encode(tokenizer, "Tom <CLS> has <CL"), expected);
  EXPECT_EQ(tokenizer.decode(expected), plain.decode(encode(plain, "Tom ")) + " <CLS> " +
                                            plain.decode(encode(plain, " has <CL")));
  EXPECT_EQ(streamed(tokenizer, expected), tokenizer.decode(expected));
  EXPECT_EQ(tokenizer.identity(), SentencePieceTokenizer(kFolder + "unigram.model", 0).identity());
  EXPECT_NE(tokenizer.identity(), SentencePieceTokenizer(kFolder + "bpe.model", 0).identity());
}

// An unused piece, here one that no text has, keeps a text from being cut where nothing is joined.
TEST(ScoredBpe, CutsChangeNothing) {
  std::mt19937_64 random(1);
  const std::vector<std::string> characters = {"a", "b", "c", "\u00e9", "\u6c34", "\U0001F600"};
  const auto draw = [&](std::size_t most, std::size_t kinds) {
    std::string text;
    for (auto n = 1 + random() % most; n > 0; --n) text += characters[random() % kinds];
    return text;
  };
  for (int model = 0; model < 200; ++model) {
    std::vector<ScoredBpe::Piece> pieces;
    for (int i = 0; i < 12; ++i)
      pieces.push_back({.text = draw(3, 5),
                        .score = static_cast<float>(random() % 9),
                        .whole = random() % 16 == 0});
    const ScoredBpe with_cuts(pieces);
    pieces.push_back({.text = "never", .unused = true});
    const ScoredBpe without(pieces);
    ScoredBpe::Scratch scratch;
    std::vector<TextSegment> found, expected;
    for (int i = 0; i < 100; ++i) {
      const std::string text = draw(80, 6);
      with_cuts.encode(text, found, scratch);
      without.encode(text, expected, scratch);
      ASSERT_EQ(found.size(), expected.size()) << text;
      for (std::size_t k = 0; k < found.size(); ++k) {
        EXPECT_EQ(found[k].id, expected[k].id) << text;
        EXPECT_EQ(found[k].end, expected[k].end) << text;
      }
    }
  }
}

// Pieces put together of earlier ones, with falling scores, as training makes them, and pieces that
// come late for what is made of them.
TEST(ScoredBpe, LongRunsAreCutAsShortOnes) {
  std::mt19937_64 random(2);
  const std::vector<std::string> characters = {"a", "b", "c", "\u00e9", "\u6c34"};
  const std::string whole = "cbacbacbacbacbacbacbacbacba";
  int linear = 0;
  for (int model = 0; model < 100; ++model) {
    std::vector<ScoredBpe::Piece> pieces;
    std::vector<std::string> texts;
    const auto add = [&](const std::string& text) {
      if (std::ranges::find(texts, text) != texts.end()) return;
      texts.push_back(text);
      pieces.push_back({.text = text, .score = -static_cast<float>(texts.size())});
    };
    for (std::size_t i = 0; i < 4; ++i) add(characters[i]);
    while (texts.size() < 30) add(texts[random() % texts.size()] + texts[random() % texts.size()]);
    if (model % 2 == 1)
      for (int i = 0; i < 3; ++i)
        std::swap(pieces[random() % 30].score, pieces[random() % 30].score);
    if (model % 3 == 1) pieces.push_back({.text = whole, .whole = true});
    const ScoredBpe with_stack(pieces);
    pieces.push_back({.text = "never", .unused = true});
    const ScoredBpe without(pieces);
    ScoredBpe::Scratch scratch;
    std::vector<TextSegment> found, expected;
    for (int i = 0; i < 20; ++i) {
      std::string text;
      for (auto n = 300 + random() % 300; n > 0; --n)
        text += random() % 4 == 0     ? texts[random() % 30]
                : random() % 100 == 0 ? whole
                                      : characters[random() % 5];
      with_stack.encode(text, found, scratch);
      without.encode(text, expected, scratch);
      ASSERT_EQ(found, expected) << text;
    }
    linear += with_stack.is_linear() ? 1 : 0;
  }
  EXPECT_GT(linear, 20);
}

// By the formula, with a node for each byte of the text.
static std::vector<TextSegment> unigram_by_definition(
    const std::vector<Unigram<float>::Piece>& pieces, float unknown, std::string_view text) {
  struct Node {
    float sum = 0;
    std::size_t from = std::string::npos;
    std::int32_t id = kUnknownPiece;
  };
  std::vector<Node> nodes(text.size() + 1);
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto offer = [&](std::size_t size, std::int32_t id, float score) {
      Node& node = nodes[at + size];
      const float sum = score + nodes[at].sum;
      if (node.from == std::string::npos || sum > node.sum) node = {sum, at, id};
    };
    bool letter = false;
    for (std::size_t id = 0; id < pieces.size(); ++id) {
      if (!text.substr(at).starts_with(pieces[id].text)) continue;
      offer(pieces[id].text.size(), static_cast<std::int32_t>(id), pieces[id].score);
      letter |= pieces[id].text.size() == 1;
    }
    if (!letter) offer(1, kUnknownPiece, unknown);
  }
  std::vector<TextSegment> segments;
  for (std::size_t end = text.size(); end > 0; end = nodes[end].from)
    segments.push_back({nodes[end].id, static_cast<std::uint32_t>(end)});
  std::ranges::reverse(segments);
  return segments;
}

TEST(Unigram, LongTextsByDefinition) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<Unigram<float>::Piece> pieces = {{"b", -1}, {"ba", -1}, {"aa", -1}};
    std::string text = "b";
    if (round == 0) {
      text.append(20001, 'a');  // two paths that do not meet before the end
    } else {
      for (int i = 0; i < 20; ++i) {
        std::string piece(1 + random() % 9, 'a');
        for (char& letter : piece) letter = static_cast<char>('a' + random() % 3);
        const auto same = [&](const auto& other) { return other.text == piece; };
        if (std::ranges::none_of(pieces, same))
          pieces.push_back({piece, -static_cast<float>(random() % 1000) / 77});
      }
      while (text.size() < 15000) text += static_cast<char>('a' + random() % 3);
    }
    const Unigram<float> unigram(pieces, {.unknown_score = -20});
    const auto expected = unigram_by_definition(pieces, -20, text);
    std::vector<TextSegment> segments, taken;
    Unigram<float>::Scratch scratch;
    float sum = 0;
    unigram.encode(text, sum, segments, scratch);
    EXPECT_EQ(segments, expected) << round;
    const auto take = [&] {
      taken.insert(taken.end(), segments.begin(), segments.end());
      segments.clear();
    };
    sum = 0;
    unigram.encode(text, sum, segments, scratch, nullptr, take);
    EXPECT_TRUE(round == 0 || !taken.empty());
    take();
    EXPECT_EQ(taken, expected) << round;
  }
}

}  // namespace mt
