#include "text/yaml.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt {
namespace {

std::string read(std::string_view yaml) {
  try {
    return chat_value_json(parse_yaml(yaml, "f"));
  } catch (const Error& error) {
    return error.what();
  }
}

// What PyYAML 6 makes of each, by json.dumps().
TEST(Yaml, ReadsAsPyYaml) {
  struct Case {
    const char *yaml, *json;
  };
  for (
      const Case& one : {
          Case{
              "a: 1\nb: -2.5\nc: x y # z\nd:\ne: ~\nf: yes\ng: No\nh: 1e5\ni: '1'\n",
              R"({"a": 1, "b": -2.5, "c": "x y", "d": null, "e": null, "f": true, "g": false, "h": "1e5", "i": "1"})"},
          Case{"l:\n- a\n- b: 1\n  c: 2\n-\n  - d\nm:\n  n: x#y\n",
               R"({"l": ["a", {"b": 1, "c": 2}, ["d"]], "m": {"n": "x#y"}})"},
          Case{"a: \"x\\n\\\n  y\\\"\\u00e9\"\nb: 'it''s'\n", R"({"a": "x\ny\"é", "b": "it's"})"},
          Case{"a: \"one\n  two\n\n  three\"\n", R"({"a": "one two\nthree"})"},
          Case{"a: |\n  x\n   y\n\nb: |-\n  z\nc: |+\n  w\n\n",
               R"({"a": "x\n y\n", "b": "z", "c": "w\n\n"})"},
          Case{"a: >\n  x\n  y\n\n  z\nb: >-\n  p\n  q\n", R"({"a": "x y\nz\n", "b": "p q"})"},
          Case{"a: [x, \"y, z\", {b: 1}, [no]]\nc: {d: e f, g: [1,\n  2]}\n",
               R"({"a": ["x", "y, z", {"b": 1}, [false]], "c": {"d": "e f", "g": [1, 2]}})"},
          Case{"\"k\": v\nlong: a\n  b\n  c\n", R"({"k": "v", "long": "a b c"})"},
          Case{"# c\n---\n- 1\n- - 2\n  - 3\n", "[1, [2, 3]]"},
          Case{"", "null"},
      })
    EXPECT_EQ(read(one.yaml), one.json) << one.yaml;
}

TEST(Yaml, RefusesTheRest) {
  EXPECT_EQ(read("a: !function u.f\n"),
            "f:1: \"!function u.f\": code is not run; a template can say it");
  EXPECT_EQ(read("a: &x 1\n"), "f:1: a value that begins with '&' is not supported");
  EXPECT_EQ(read("a: 1\na: 2\n"), "f:2: the key \"a\" stands twice");
  EXPECT_EQ(read("a: \"x\n"), "f:1: this string has no end");
  EXPECT_EQ(read("a: [1, 2\n"), "f:2: expected ',' or ']'");
  EXPECT_EQ(read("a: 1\n   b: 2\n"), "f:2: indented further than the entries above");
  EXPECT_EQ(read("a: 'x' y\n"), "f:1: expected the end of the line");
  EXPECT_EQ(read("a: 1\nb\n"), "f:2: expected \"key: value\"");
  EXPECT_EQ(read("a: \"\\q\"\n"), "f:1: the escape \"\\q\" is not supported");
  EXPECT_EQ(read("a:\n\tb: 1\n"), "f:2: a tab; expected spaces");
  EXPECT_EQ(read("a: \xff\n"), "f: not UTF-8");
  EXPECT_EQ(read(std::string(200, '[')), "f:1: nested deeper than 64");
}

}  // namespace
}  // namespace mt
