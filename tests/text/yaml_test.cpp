#include "text/yaml.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt {
namespace {

std::string read(std::string_view yaml, const YamlRules& rules = {}) {
  try {
    return chat_value_json(parse_yaml(yaml, "f", rules));
  } catch (const Error& error) {
    return error.what();
  }
}

// What PyYAML 6 makes of each, by json.dumps(), but for keys, which stay texts.
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
          Case{"# c\n---\n- 1\n- - 2\n  - 3\n...\n", "[1, [2, 3]]"},
          Case{"%YAML 1.1\n---\na: 1\r\nb:\r\n  c: 2\r\n", R"({"a": 1, "b": {"c": 2}})"},
          Case{"", "null"},
          Case{"a: [-7, 0x1F, 1_000, 010, 0b11, +3, 08, 1., .5, -.5, 1.5e+2, 1.0e-05, 1.2.3]",
               R"({"a": [-7, 31, 1000, 8, 3, 3, "08", 1.0, 0.5, "-.5", 150.0, 1e-05, "1.2.3"]})"},
          Case{"a: [.inf, -.INF, .nan, 9223372036854775807, -9223372036854775808]",
               R"({"a": [Infinity, -Infinity, NaN, 9223372036854775807, -9223372036854775808]})"},
          Case{"a: &x\n  b: 1\nc: *x\nd: &y [2]\ne: *y\n",
               R"({"a": {"b": 1}, "c": {"b": 1}, "d": [2], "e": [2]})"},
          Case{"a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc:\n  <<: [*a, *b]\n  x: 5\n",
               R"({"a": {"x": 1, "y": 2}, "b": {"y": 3, "z": 4}, "c": {"y": 2, "z": 4, "x": 5}})"},
          Case{"a: !!str 7\nb: !!float 7\nc: ! 7\nd: !!int '7'\n",
               R"({"a": "7", "b": 7.0, "c": "7", "d": 7})"},
          Case{"true: yes\n1: 2\nurl: http://x/y#z\n",
               R"({"true": true, "1": 2, "url": "http://x/y#z"})"},
      })
    EXPECT_EQ(read(one.yaml), one.json) << one.yaml;
}

TEST(Yaml, RefusesTheRest) {
  EXPECT_EQ(read("a: !function u.f\n"),
            "f:1: \"!function u.f\": code is not run; a template can say it");
  EXPECT_EQ(read("a: !x 1\n"), "f:1: the tag !x is not supported");
  for (const char* const wrong : {"!!int x", "!!bool 1", "!!float x", "!!null 0", "!!seq x",
                                  "!!map [1]", "!!seq {a: 1}", "!!str [1]"})
    EXPECT_EQ(read(wrong),
              concat("f:1: the tag ",
                     std::string_view(wrong).substr(0, std::string_view(wrong).find(' ')),
                     " is not of this value"));
  EXPECT_EQ(read("a: *b\n"), "f:1: *b: is no anchor before");
  EXPECT_EQ(read("a: &b [*b]\n"), "f:1: *b: is no anchor before");
  EXPECT_EQ(read("a: 1\na: 2\n"), "f:2: the key \"a\" stands twice");
  EXPECT_EQ(read("? [a]\n: b\n"), "f:1: a key that is no text");
  EXPECT_EQ(read("a:\n  <<: 1\n"), "f:2: <<: expected a mapping, or a list of mappings");
  EXPECT_EQ(read("a: 9223372036854775808\n"),
            "f:1: 9223372036854775808: a whole number of more than 64 bits");
  EXPECT_EQ(read("a: 1\n---\nb: 2\n"), "f:2: a second document; one is expected");
  EXPECT_EQ(read("a: \"x\n"),
            "f:2: while scanning a quoted scalar, found unexpected end of stream");
  EXPECT_EQ(read("a: 1\n   b: 2\n"), "f:2: mapping values are not allowed in this context");
  EXPECT_EQ(read("a:\n\tb: 1\n"),
            "f:2: while scanning for the next token, found character that cannot start any token");
  EXPECT_EQ(read("a: 1\nb: \xff\n"), "f:2: invalid leading UTF-8 octet");
  EXPECT_EQ(read(std::string(200, '[')), "f:1: nested deeper than 64");
  // Each list holds the one before ten times.
  std::string many = "a0: &a0 [1]\n";
  for (int i = 1; i < 12; ++i) {
    many += concat("a", i, ": &a", i, " [");
    for (int k = 0; k < 10; ++k) many += concat("*a", i - 1, k < 9 ? ", " : "]\n");
  }
  EXPECT_EQ(read(many), "f: a list or dict of more than 4 Mi values");
}

TEST(Yaml, ReadsAsOmegaConf) {
  const YamlRules rules{.code = Exit::bad_data, .omegaconf = true};
  EXPECT_EQ(
      read("a: !!python/tuple\n- 1\n- 2\nb: !!python/name:torch.nn.functional.silu ''\n", rules),
      R"({"a": [1, 2], "b": ""})");
  EXPECT_EQ(read("a: [1e-5, -1E5, 1.5e3, 1_0e2, .5e-1, e5, 1e, 12, 08]\n", rules),
            R"({"a": [1e-05, -100000.0, 1500.0, 1000.0, 0.05, "e5", "1e", 12, "08"]})");
  try {
    parse_yaml("a: [", "f", rules);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_data);
  }
}

}  // namespace
}  // namespace mt
