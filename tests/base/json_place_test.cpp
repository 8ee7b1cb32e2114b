#include "base/json_place.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt {

const std::string kObject =
    R"({"a":[],"b":{},"c":[-0,10.25e-3,1E+9,{"d":["\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00",""]}],)"
    "\r\n\t \"\u00e9\uFFFD\U0001F600\" : [ true , false , null ] }";

TEST(JsonPlace, JsonHasNone) {
  for (const std::string_view text :
       {" 0 ", "\"\"", "[]", "{}", "null", "[[[]],{}]", "-1.5e3", "{\"a\":{\"b\":1},\"c\":2}"})
    EXPECT_EQ(json_place(text), "") << text;
  EXPECT_EQ(json_place(kObject), "");
  EXPECT_EQ(json_place(std::string(100000, '[') + std::string(100000, ']')), "");
}

TEST(JsonPlace, ACutIsAtTheEnd) {
  for (std::size_t size = 0; size < kObject.size(); ++size) {
    const std::string cut = kObject.substr(0, size);
    if (static_cast<signed char>(kObject[size]) < -64) continue;  // inside a character
    EXPECT_EQ(json_place(cut), concat("byte ", size, ": ")) << cut;
  }
}

TEST(JsonPlace, IsTheFirstByteThatCannotStandThere) {
  const auto place = [](std::string_view before, std::string_view behind) {
    EXPECT_EQ(json_place(concat(before, behind)), concat("byte ", before.size(), ": ")) << behind;
  };
  place("[1,", "]");
  place("[1 ", "2]");
  place("{", ",}");
  place("{\"a\"", ",1}");
  place("{\"a\":", "}");
  place("{\"a\":1,", "}");
  place("{\"a\":1", "]");
  place("[", "}");
  place("0", "1");
  place("1.", "]");
  place("-", "a");
  place("1e+", "x");
  place("tru", "th");
  place("[nul", "]");
  place("\"a", "\n\"");
  place("\"", std::string_view("\0\"", 2));
  place("[", std::string_view("\0]", 2));
  place("\"\\", "x\"");
  place("\"\\u00", "g0\"");
  place("\"\\u", "-123\"");
  place("\"\\ud800", "\"");
  place("\"\\ud800\\", "n\"");
  place("\"\\ude00", "\"");
  place("\"ab", "\xFF\"");
  place("\"", "\xED\xA0\x80\"");
  place("{} ", "{}");
}

TEST(JsonPlace, LinesThatAreNoObjectsAreNamed) {
  const auto wrong = [](std::string_view line) {
    try {
      check_begins_object(line, "a:1");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(wrong(" {\"a\":[{}]} \r"), "");
  EXPECT_EQ(wrong("{"),
            "a:1: an object over several lines, expected one object a line, which jq -c . "
            "makes of it");
  for (const char* const array : {"[", "[{\"a\":1}]", " [ {"})
    EXPECT_EQ(wrong(array),
              "a:1: a JSON array, expected one object a line, which jq -c '.[]' makes of it");
  EXPECT_EQ(wrong("{},"), "a:1: a comma behind the object, expected one object a line");
  EXPECT_EQ(wrong(" \r"), "a:1: empty line, expected a JSON object");
  for (const char* const other : {"word", "[1]", "\"{\"", "id,text"})
    EXPECT_EQ(wrong(other), "a:1: not a JSON object");
}

}  // namespace mt
