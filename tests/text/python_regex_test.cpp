// As CPython 3.11's `re` finds and replaces.
#include "text/python_regex.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt {
namespace {

std::string found(std::string_view regex, std::string_view text) {
  std::string all;
  for (const PythonRegex::Match& match : PythonRegex(regex).find_all(text)) {
    all += "[" + std::string(text.substr(match.begin, match.end - match.begin));
    for (const std::string_view group : match.groups) all += "|" + std::string(group);
    all += "]";
  }
  return all;
}

TEST(PythonRegex, FindsAll) {
  EXPECT_EQ(found("(-?[$0-9.,]{2,})|(-?[0-9]+)", "a $18.50, 7"), "[$18.50,|$18.50,|][7||7]");
  EXPECT_EQ(found("x*", "axxb"), "[][xx][][]");  // re.findall("x*", "axxb") == ["", "xx", "", ""]
  EXPECT_EQ(found("\\w+", "d\xC3\xA9j\xC3\xA0 vu"), "[d\xC3\xA9j\xC3\xA0][vu]");
  EXPECT_EQ(found("(?P<a>.)(?P=a)", "aabcc"), "[aa|a][cc|c]");
  EXPECT_EQ(found("b$", "ab\n"), "[b]");
  EXPECT_EQ(found("b\\Z", "ab\n"), "");
  EXPECT_EQ(found("\\\\Z", "\\Z"), "[\\Z]");
}

TEST(PythonRegex, Replaces) {
  const auto sub = [](std::string_view regex, std::string_view by, std::string_view text,
                      int count = 0) { return PythonRegex(regex).replace(text, by, count); };
  EXPECT_EQ(sub("(a)(b)?", "<\\2\\g<1>>", "ab a"), "<ba> <a>");
  EXPECT_EQ(sub("x*", "-", "abxd"), "-a-b--d-");
  EXPECT_EQ(sub("a", "b", "aaa", 2), "bba");
  EXPECT_EQ(sub("a", "\\\\n\\n", "a"), "\\n\n");
  EXPECT_THROW(sub("a", "\\1", "a"), Error);
  EXPECT_THROW(sub("a", "\\q", "a"), Error);
}

TEST(PythonRegex, RefusesMistakes) {
  try {
    PythonRegex("a(b");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_config);
    EXPECT_EQ(std::string(error.what()).substr(0, 31), "the regular expression \"a(b\": m");
  }
  // A search without end ends.
  EXPECT_THROW(PythonRegex("(a+)+$").find_all(std::string(60, 'a') + "b"), Error);
}

}  // namespace
}  // namespace mt
