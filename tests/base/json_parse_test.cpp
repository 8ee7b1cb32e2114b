#include "base/json_parse.h"

#include <gtest/gtest.h>

namespace mt {

// What one value becomes; "none" where it is no JSON.
static std::string read(std::string_view value) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parse_json(parser, "[" + std::string(value) + "]").get(root)) return "none";
  const std::string text = simdjson::minify(root);
  return text.substr(1, text.size() - 2);
}

TEST(JsonParse, NumbersOfAnySizeAreRead) {
  EXPECT_EQ(read("1000000000000000019884624838656"), "1e+30");
  EXPECT_EQ(read("[18446744073709551615,18446744073709551616]"),
            "[18446744073709551615,1.8446744073709552e+19]");
  EXPECT_EQ(read("-99999999999999999999"), "-1e+20");
  EXPECT_EQ(read("{\"a\":[1e400,-1e400,1E-400]}"), "{\"a\":[1e+308,-1e+308,0.0]}");
  EXPECT_EQ(read("1" + std::string(400, '0')), "1e+308");
  EXPECT_EQ(read("[Infinity,-Infinity,NaN]"), "[1e+308,-1e+308,null]");
}

TEST(JsonParse, TextsKeepWhatLooksLikeNumbers) {
  EXPECT_EQ(read(R"({"NaN 99999999999999999999":"a\"1e400","b":1e400})"),
            R"({"NaN 99999999999999999999":"a\"1e400","b":1e+308})");
}

TEST(JsonParse, WhatIsNoJsonIsNone) {
  for (const char* text : {"1e", "--1", "1.2.3", "01", "Infinit", "nan", "+1", "[1e400", "\"1e400",
                           "99999999999999999999x", "0x1p3", "-", "\"\\"})
    EXPECT_EQ(read(text), "none") << text;
}

TEST(JsonParse, IsHardlyLonger) {
  for (const char* text : {"9e999", "-9e999", "NaN", "Infinity", "99999999999999999999", "9E-999"})
    EXPECT_LE(with_plain_numbers(text).size(), std::string_view(text).size() + 4) << text;
}

}  // namespace mt
