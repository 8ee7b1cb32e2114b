#include "text/unicode/utf8_stream.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"

namespace mt {

TEST(Utf8Stream, AppearsWithTheLastByte) {
  Utf8Stream stream;
  std::string text;
  stream.push("a\xF0", text);
  EXPECT_EQ(text, "a");
  stream.push("\x9F\x98", text);
  EXPECT_EQ(text, "a");
  stream.push("\x80", text);
  EXPECT_EQ(text, "a\U0001F600");
  stream.push("\xE6\xB0", text);
  stream.finish(text);
  EXPECT_EQ(text, "a\U0001F600\uFFFD");
  stream.push("b", text);  // nothing is left of the cut character
  EXPECT_EQ(text, "a\U0001F600\uFFFDb");
}

TEST(Utf8Stream, AnyBytesInAnyParts) {
  std::mt19937 random(1);
  const std::string_view bytes =
      "a\x80\xBF\xC0\xC3\xE0\xA0\xED\x9F\xEF\xBF\xBD\xF0\x90\xF4\x8F\xFF";
  for (int round = 0; round < 20000; ++round) {
    std::string all, text;
    Utf8Stream stream;
    for (int parts = 0; parts < 5; ++parts) {
      std::string part;
      for (unsigned n = random() % 4; n > 0; --n) part += bytes[random() % bytes.size()];
      stream.push(part, text);
      all += part;
      ASSERT_EQ(replace_invalid_utf8(all).compare(0, text.size(), text), 0);
    }
    stream.finish(text);
    ASSERT_EQ(text, replace_invalid_utf8(all));
  }
}

}  // namespace mt
