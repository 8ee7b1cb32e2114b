// Repair of texts, words, and sketches of them.
#include <gtest/gtest.h>

#include "data/corpus/line_filter.h"
#include "data/corpus/min_hash.h"
#include "data/corpus/text_repair.h"
#include "data/corpus/words.h"

namespace mt {
namespace {

TEST(Repair, ReadsMisreadUtf8Again) {
  EXPECT_EQ(repaired("plain\ttext\n"), "plain\ttext\n");
  EXPECT_EQ(repaired("caf\u00C3\u00A9"), "caf\u00E9");
  EXPECT_EQ(repaired("\u00E2\u20AC\u0153x\u00E2\u20AC\u009D"), "\u201Cx\u201D");
  EXPECT_EQ(repaired("\u00C3\u0192\u00C2\u00A9"), "\u00E9");  // twice
  EXPECT_EQ(repaired("\u00C3\u0083\u00C2\u00A9"), "\u00E9");  // as Latin-1
  EXPECT_EQ(repaired("\u00F0\u0178\u02DC\u20AC"), "\U0001F600");
  for (const char* fine :
       {"caf\u00E9", "\u00C3", "na\u00EFve \u00C9t\u00E9", "5 \u20AC", "\u4E2D\u6587"})
    EXPECT_EQ(repaired(fine), fine);
}

TEST(Repair, EndsLinesDropsControlsAndComposes) {
  EXPECT_EQ(repaired("a\r\nb\rc\u2028d\u2029"), "a\nb\nc\nd\n");
  // As fix_text() of ftfy 6 has them (with uncurl_quotes and unescape_html off).
  EXPECT_EQ(repaired("It\u0092s"), "It\u2019s");
  EXPECT_EQ(repaired("wait\u0085"), "wait\u2026");
  EXPECT_EQ(repaired("\u008010 \u0096 \u0093a\u0094"), "\u20AC10 \u2013 \u201Ca\u201D");
  EXPECT_EQ(repaired("S\u008Aari \u009Eena"), "S\u0160ari \u017Eena");
  EXPECT_EQ(repaired("\u0099 \u0095 x\u0081y"), "\u2122 \u2022 xy");
  EXPECT_EQ(repaired(std::string_view("\uFEFFa\0b\x7F\x1B", 9)), "ab");
  EXPECT_EQ(repaired("e\u0301"), "\u00E9");
}

TEST(Words, AreRunsOfLettersAndDigitsInLowerCase) {
  EXPECT_EQ(word_hashes("One, TWO-3 \u00C9t\u00E9!"), word_hashes("one two 3 \u00E9t\u00E9"));
  EXPECT_EQ(word_hashes("one two").size(), 2U);
  EXPECT_NE(word_hashes("ab"), word_hashes("ba"));
  EXPECT_TRUE(word_hashes(" .").empty());
}

TEST(MinHash, EstimatesHowAlikeTextsAre) {
  std::vector<std::uint64_t> a, b;
  for (std::uint64_t i = 0; i < 4000; ++i) a.push_back(mixed(i));
  for (std::uint64_t i = 1000; i < 5000; ++i) b.push_back(mixed(i));
  // 3000 of 5000 runs are common: 0.6, and 128 bins tell that within 0.13, three deviations.
  EXPECT_NEAR(similarity(min_hash(a), min_hash(b)), 0.6, 0.13);
  EXPECT_EQ(similarity(min_hash(a), min_hash(a)), 1);
  const std::span<const std::uint64_t> few(a.data(), 8);
  EXPECT_EQ(similarity(min_hash(few), min_hash(few)), 1);
  EXPECT_LT(similarity(min_hash(few), min_hash(std::span(b).first(8))), 0.2);
  MinHashIndex index;
  EXPECT_FALSE(index.has_similar(min_hash(a), 0.5));
  index.add(min_hash(b));
  EXPECT_FALSE(index.has_similar(min_hash(a), 0.9));
  EXPECT_TRUE(index.has_similar(min_hash(b), 1));
  EXPECT_TRUE(index.has_similar(min_hash(std::span(b).first(3900)), 0.7));
}

// A text with the bins of one kept before in the band 0 only, and otherwise like none.
static MinHash sharing_band_0(std::uint64_t number) {
  MinHash sketch;
  for (std::size_t i = 0; i < kMinHashBins; ++i)
    sketch[i] = static_cast<std::uint32_t>(i < 8 ? i : mixed(number << 8 | i));
  return sketch;
}

TEST(MinHash, ComparesAllThatShareABand) {
  const MinHash second = sharing_band_0(2);
  MinHash like_second = second;  // of the 16 bands all but the first have one other bin: 113 of 128
  for (std::size_t band = 1; band < 16; ++band) like_second[8 * band] ^= 1;
  MinHashIndex index;
  index.add(sharing_band_0(1));
  EXPECT_FALSE(index.has_similar(second, 0.5));
  index.add(second);
  index.add(sharing_band_0(3));
  EXPECT_TRUE(index.has_similar(like_second, 0.88));
  EXPECT_FALSE(index.has_similar(like_second, 0.89));
  for (std::uint64_t more = 0; more < MinHashIndex::kMostCompared - 2; ++more)
    index.add(sharing_band_0(4 + more));
  EXPECT_TRUE(index.has_similar(like_second, 0.88));
  index.add(sharing_band_0(4 + MinHashIndex::kMostCompared));
  EXPECT_FALSE(index.has_similar(like_second, 0.88)) << "more are compared than said";
}

TEST(WithText, ChangesTheLastOfEqualKeysAndNothingElse) {
  EXPECT_EQ(with_text(R"({"a":{"text":"x"}, "text":"o\"n\\","text" : "two\\" ,"b":[1]})", "text",
                      "new\n"),
            R"({"a":{"text":"x"}, "text":"o\"n\\","text" : "new\n" ,"b":[1]})");
  EXPECT_EQ(with_text(R"({"text":["old"],"b":1})", "text", "new"), R"({"text":"new","b":1})");
}

}  // namespace
}  // namespace mt
