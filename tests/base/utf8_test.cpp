#include "base/utf8.h"

#include <gtest/gtest.h>

#include <vector>

namespace mt {

static std::vector<char32_t> decode(std::string_view text) {
  std::vector<char32_t> points;
  for (std::size_t at = 0; at < text.size();) points.push_back(next_code_point(text, at));
  return points;
}

TEST(Utf8, DecodesEachLength) {
  EXPECT_EQ(decode("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"),
            (std::vector<char32_t>{'a', 0xE9, 0x20AC, 0x1F600}));
}

TEST(Utf8, EveryCodePointReturns) {
  for (char32_t point = 0; point < 0x110000; ++point) {
    if (point >= 0xD800 && point < 0xE000) continue;
    std::string text;
    append_utf8(text, point);
    std::size_t at = 0;
    ASSERT_EQ(next_code_point(text, at), point);
    ASSERT_EQ(at, text.size());
    ASSERT_TRUE(is_valid_utf8(text));
  }
}

struct IllFormed {
  const char* text;
  const char* replaced;
};

// Unicode 15, section 3.9: tables 3-8 to 3-11 and the bounds of table 3-7.
TEST(Utf8, ReplacesMaximalSubparts) {
  const IllFormed cases[] = {
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", "\uFFFD\uFFFD\uFFFD\uFFFDA"},
      {"\xF0\x9F\x98", "\uFFFD"},
      {"\xC3", "\uFFFD"},
      {"a\xC3z", "a\uFFFDz"},
      {"\xC1\xBF", "\uFFFD\uFFFD"},
      {"\xF5\x80", "\uFFFD\uFFFD"},
  };
  for (const IllFormed& one : cases) {
    EXPECT_EQ(replace_invalid_utf8(one.text), one.replaced);
    EXPECT_FALSE(is_valid_utf8(one.text)) << one.replaced;
  }
}

TEST(Utf8, TheReplacementItselfIsValid) {
  EXPECT_TRUE(is_valid_utf8("\uFFFD"));
  EXPECT_TRUE(is_valid_utf8(""));
  EXPECT_TRUE(is_valid_utf8(std::string_view("a\0b", 3)));
}

}  // namespace mt
