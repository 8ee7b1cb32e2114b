#include "ckpt/yaml.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_object.h"
#include "tests/base/scratch.h"

namespace mt {
namespace {

// As JSON, but with None, and real numbers in <>.
std::string text_of(const PyValue& value) {
  switch (value.kind()) {
    case PyValue::Kind::none:
      return "None";
    case PyValue::Kind::boolean:
      return value.as_bool("") ? "true" : "false";
    case PyValue::Kind::integer:
      return std::to_string(value.as_integer(""));
    case PyValue::Kind::real:
      return concat('<', value.as_real(""), '>');
    case PyValue::Kind::string:
      return json_quoted(value.as_string(""));
    default:
      break;
  }
  const bool is_dict = value.is(PyValue::Kind::dict);
  const std::vector<PyValue>& all = is_dict ? value.entries("") : value.as_items("");
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i)
    text += concat(text.empty() ? "" : is_dict && i % 2 == 1 ? ":" : ",", text_of(all[i]));
  return is_dict ? concat('{', text, '}') : concat('[', text, ']');
}

std::string read(const std::string& yaml) {
  std::string text;
  const std::string error = error_of([&] { text = text_of(parse_yaml(yaml, "f")); });
  return error.empty() ? text : error;
}

// But for keys, which stay texts.
TEST(Yaml, IsWhatPyYamlReads) {
  for (const auto& [yaml, expected] : {
           std::pair("", "None"),
           {"a: 1\nb: two words  # a comment\n", R"({"a":1,"b":"two words"})"},
           {"model:\n  layers: 2\n  rope:\n    base: 1.0e-05\n  tied: false\nlast: null\n",
            R"({"model":{"layers":2,"rope":{"base":<1e-05>},"tied":false},"last":None})"},
           {"a:\n- 1\n- - x\n  - y\n- k: v\n  l: w\n- []\n",
            R"({"a":[1,["x","y"],{"k":"v","l":"w"},[]]})"},
           {"a:\n  - 1\n  -\n    b: 2\nc: {}\n", R"({"a":[1,{"b":2}],"c":{}})"},
           {"a: [1, two, [3.5, 'x, y'], {b: c, d}]\n",
            R"({"a":[1,"two",[<3.5>,"x, y"],{"b":"c","d":None}]})"},
           {"'a b': 'it''s'\n\"c:d\": \"\\u00e9\\t\\x41 \\\\\"\n",
            "{\"a b\":\"it's\",\"c:d\":\"\u00e9\\tA \\\\\"}"},
           {"a: one\n  two\n\n  three\nb: \"folded\n  line\\\n  d\"\n",
            R"({"a":"one two\nthree","b":"folded lined"})"},
           {"a: |-\n  x\n    y\nb: >\n  folded\n  text\nc: 1\n",
            R"({"a":"x\n  y","b":"folded text\n","c":1})"},
           {"a: &id001\n  b: 1\nc: *id001\nd: &x [2]\ne: *x\n",
            R"({"a":{"b":1},"c":{"b":1},"d":[2],"e":[2]})"},
           {"---\na: !!python/tuple\n- 1\n- 2\nb: !!str 7\n", R"({"a":[1,2],"b":7})"},
           {"a: -7\nb: 0x1F\nc: 1_000\nd: .inf\ne: '12'\nf: 1.2.3\n",
            R"({"a":-7,"b":31,"c":1000,"d":<inf>,"e":"12","f":"1.2.3"})"},
           {"url: http://x/y#z\npath: a:b\ntrue: yes\n",
            R"({"url":"http://x/y#z","path":"a:b","true":true})"},
           {"a: 1\r\nb:\r\n  c: 2\r\n", R"({"a":1,"b":{"c":2}})"},
           {"- 1\n- 2\n", "[1,2]"},
       })
    EXPECT_EQ(read(yaml), expected) << yaml;
}

TEST(Yaml, SaysWhereItIsNone) {
  for (const auto& [yaml, expected] : {
           std::pair("a: 1\n  b: 2\n", "65 f:2: a value that holds `: ` stands in quotes"),
           {"a: [1, 2\n", "65 f:2: a collection without its closing bracket"},
           {"a: [&b", "65 f:1: a collection without its closing bracket"},
           {"a: {b: 1\n", "65 f:2: a mapping without its closing brace"},
           {"a: 'x\n", "65 f:2: a text without its closing quote"},
           {"a: \"\\q\"\n", "65 f:1: an unknown escape"},
           {"a: \"\\u12\"\n", "65 f:1: expected 4 hexadecimal digits behind \\u"},
           {"a: *b\n", "65 f:1: *b: is no anchor before"},
           {"? a\n: b\n", "65 f:1: a complex key, which is not read"},
           {"%YAML 1.1\n---\na: 1\n", "65 f:1: a directive, which is not read"},
           {"a: 1\n---\nb: 2\n", "65 f:2: a second document; one is expected"},
           {"a: 'x' y\n", "65 f:1: more after the value"},
           {"a:\n  b: 1\n   c: 2\n", "65 f:3: a value that holds `: ` stands in quotes"},
       })
    EXPECT_EQ(read(yaml), expected) << yaml;
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += "- ";
  EXPECT_EQ(read(deep + "1"), "65 f:1: nests too deep");
  EXPECT_EQ(read(std::string(200, '[')), "65 f:1: nests too deep");
}

}  // namespace
}  // namespace mt
