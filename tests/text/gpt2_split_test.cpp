#include "text/bpe/gpt2_split.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "text/bpe/word_split.h"

namespace mt {

using Pieces = std::vector<std::string>;

// Asks for `at_a_time` pieces in each call.
static Pieces split(std::string_view text, std::size_t at_a_time = 3,
                    Splitter splitter = gpt2_split) {
  Pieces pieces;
  std::vector<std::size_t> ends(at_a_time);
  std::size_t at = 0;
  while (const std::size_t count = splitter(text, at, ends)) {
    for (std::size_t i = 0; i < count; at = ends[i], ++i)
      pieces.emplace_back(text.substr(at, ends[i] - at));
  }
  return pieces;
}

TEST(Gpt2Split, Specification) {
  const std::string_view text = "Hello  world's 123\n\n  foo";
  const Pieces expected = {"Hello", " ", " world", "'s", " 123", "\n\n ", " foo"};
  EXPECT_EQ(split(text), expected);
  EXPECT_EQ(split(text, 1), expected);
  EXPECT_EQ(split(text, 100), expected);
}

TEST(Gpt2Split, WhiteSpace) {
  EXPECT_EQ(split(""), Pieces{});
  EXPECT_EQ(split(" "), Pieces{" "});
  EXPECT_EQ(split("   "), Pieces{"   "});
  EXPECT_EQ(split("a   "), (Pieces{"a", "   "}));
  EXPECT_EQ(split("   a"), (Pieces{"  ", " a"}));
  EXPECT_EQ(split("\na"), (Pieces{"\n", "a"}));
  EXPECT_EQ(split(" \na"), (Pieces{" ", "\n", "a"}));
  EXPECT_EQ(split("\n a"), (Pieces{"\n", " a"}));
  EXPECT_EQ(split("a\r\nb"), (Pieces{"a", "\r", "\n", "b"}));
  EXPECT_EQ(split("\u00A0 a"), (Pieces{"\u00A0", " a"}));
  EXPECT_EQ(split(" \u00A0a"), (Pieces{" ", "\u00A0", "a"}));
  EXPECT_EQ(split(" \u3000\u2003"), (Pieces{" \u3000\u2003"}));
}

TEST(Gpt2Split, ContractionsInLowerCaseOnly) {
  EXPECT_EQ(split("he'll've"), (Pieces{"he", "'ll", "'ve"}));
  EXPECT_EQ(split("it'sn't'd'm're"), (Pieces{"it", "'s", "n", "'t", "'d", "'m", "'re"}));
  EXPECT_EQ(split("HE'LL"), (Pieces{"HE", "'", "LL"}));
  EXPECT_EQ(split(" 's"), (Pieces{" '", "s"}));
  EXPECT_EQ(split("''s"), (Pieces{"''", "s"}));
  EXPECT_EQ(split("'"), Pieces{"'"});
  EXPECT_EQ(split("'l"), (Pieces{"'", "l"}));
  EXPECT_EQ(split("a'lx"), (Pieces{"a", "'", "lx"}));
  EXPECT_EQ(split("'see"), (Pieces{"'s", "ee"}));
}

TEST(Gpt2Split, ClassesOfOtherScripts) {
  EXPECT_EQ(split("\u6C34\u0661\u0662!\u0301"), (Pieces{"\u6C34", "\u0661\u0662", "!\u0301"}));
  EXPECT_EQ(split("e\u0301t"), (Pieces{"e", "\u0301", "t"}));  // a combining mark is no letter
  EXPECT_EQ(split(" \U0001F600\U0001F600x"), (Pieces{" \U0001F600\U0001F600", "x"}));
  EXPECT_EQ(split("<|endoftext|>"), (Pieces{"<|", "endoftext", "|>"}));
}

// With room for few pieces they are cut one by one, else 64 bytes at a time.
TEST(Gpt2Split, ManyPiecesAtATimeAreThePiecesOneByOne) {
  std::mt19937_64 random(1);
  const Pieces parts = {"a",  "word",   "Longer", "7",      "2026", " ", "  ",
                        "\n", "\t",     "'",      "'s",     "'ll",  "!", "?!",
                        "-",  "\u00e9", "\u6c34", "\u00a0", "\xFF"};
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    const std::size_t kinds = 2 + random() % (parts.size() - 1);
    for (auto n = random() % 200; n > 0; --n) text += parts[random() % kinds];
    const Pieces expected = split(text, 1);
    for (const std::size_t room : {64, 100, 256})
      for (const Splitter splitter : {gpt2_split, portable_gpt2_split})
        ASSERT_EQ(split(text, room, splitter), expected) << text;
  }
}

// Behind the text memory ends.
TEST(Gpt2Split, NothingBehindTheTextIsRead) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const pages =
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  char* const end = static_cast<char*>(pages) + page;
  ASSERT_EQ(::mprotect(end, page, PROT_NONE), 0);
  const std::string text =
      "It's 1 of  many words that don't end here, \u6c34, but 'there'll be 2026";
  for (std::size_t size = 0; size <= text.size(); ++size) {
    std::memcpy(end - size, text.data(), size);
    const std::string_view last(end - size, size);
    const Pieces expected = split(text.substr(0, size), 1);
    for (const Splitter splitter : {gpt2_split, portable_gpt2_split})
      ASSERT_EQ(split(last, 64, splitter), expected) << last;
  }
  ::munmap(pages, 2 * page);
}

TEST(Gpt2Split, AnyBytesComeBack) {
  std::string text;
  for (int i = 0; i < 65536; ++i) text += {static_cast<char>(i >> 8), static_cast<char>(i)};
  std::string together;
  for (const std::string& piece : split(text)) together += piece;
  EXPECT_EQ(together, text);
}

}  // namespace mt
