// Grammars of JSON schemas: which texts fit them, and which schemas are refused.
#include "text/grammar/json_schema.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt {
namespace {

ByteGrammar grammar_of(std::string_view schema) {
  simdjson::dom::parser parser;
  return grammar_of_schema(parser.parse(simdjson::padded_string(schema)).value());
}

bool fits(const ByteGrammar& grammar, std::string_view text) {
  GrammarText at(grammar);
  GrammarText::Places places = at.at_beginning();
  for (const char c : text) {
    places = at.behind(places, static_cast<std::uint8_t>(c));
    if (places.none()) return false;
  }
  return places.whole;
}

void expect(std::string_view schema, const std::vector<std::string_view>& good,
            const std::vector<std::string_view>& bad) {
  SCOPED_TRACE(schema);
  const ByteGrammar grammar = grammar_of(schema);
  for (const std::string_view text : good) EXPECT_TRUE(fits(grammar, text)) << text;
  for (const std::string_view text : bad) EXPECT_FALSE(fits(grammar, text)) << text;
}

std::string refusal(std::string_view schema) {
  try {
    grammar_of(schema);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(JsonSchema, AnyValue) {
  expect("true",
         {"1", "-0", "-1.5e+10", "0.25", "\"\"", "\"é\\u00e9\\ud83d\\ude00\\n\"", "true", "null",
          "[]", "[1, {\"a\": [2,3]}]", "{}", R"({"a":1, "b": {"c":[]}})"},
         {"", "01", "1.", ".5", "+1", "\"\n\"", "\"\\ud83d\"", "\"\\ude00\"", "\"\\x\"", "tru",
          "[1,]", "{\"a\"}", "[1 ]", "{ }", "{\"a\":  1}", "1 ", "\"\xC3\"", "\"\xED\xA0\x80\""});
  EXPECT_TRUE(fits(grammar_of_json_object(), R"({"a": [1, null]})"));
  EXPECT_FALSE(fits(grammar_of_json_object(), "[]"));
}

TEST(JsonSchema, Objects) {
  expect(R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"boolean"}},
             "required":["b"],"additionalProperties":false})",
         {R"({"b":true})", R"({"a": 1, "b": false})"},
         {"{}", R"({"a":1})", R"({"b":true,"a":1})", R"({"b":true,"c":1})", R"({"b":true,})",
          R"({"b":1})"});
  expect(R"({"type":"object","properties":{"ab":{"const":1}},"additionalProperties":{"const":2}})",
         {"{}", R"({"ab":1})", R"({"ab":1,"a":2,"abc":2,"":2,"b\n":2})", R"({"b":2,"é":2})"},
         {R"({"ab":2})", R"({"x":1})", R"({"\u0061b":2})", R"({"\n":2})", R"({"x":2,"ab":1})"});
  expect(R"({"properties":{"x y\"":{}},"required":["z"],"type":"object"})",
         {R"({"x y\"":[],"z":0,"w":1})", R"({"z":{}})"}, {"{}", R"({"x y\"":1})"});
}

TEST(JsonSchema, Arrays) {
  expect(R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
         {"[1]", "[1, 2,3]"}, {"[]", "[1,2,3,4]", "[\"a\"]", "[1,]"});
  expect(R"({"prefixItems":[{"const":"a"},{"const":"b"}],"items":false,"type":"array"})",
         {"[]", "[\"a\"]", "[\"a\",\"b\"]"}, {"[\"b\"]", "[\"a\",\"b\",1]"});
  expect(R"({"prefixItems":[{"const":1}],"items":{"const":2},"type":"array","minItems":3})",
         {"[1,2,2]", "[1,2,2,2,2]"}, {"[1,2]", "[2,2,2]"});
  expect(R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"});
}

TEST(JsonSchema, Strings) {
  expect(R"({"type":"string","minLength":2,"maxLength":3})", {"\"ab\"", "\"éé\\n\""},
         {"\"a\"", "\"abcd\"", "2"});
  expect(R"({"type":"string","minLength":1})", {"\"a\"", "\"abcdef\""}, {"\"\""});
  expect(R"({"type":"string","pattern":"^(ab|c)+[0-9]{2,3}$"})", {"\"abc12\"", "\"c123\""},
         {"\"12\"", "\"ab1\"", "\"ab1234\"", "\"xab12\""});
  expect(R"({"type":"string","pattern":"b.d"})", {"\"abcde\"", "\"b\\\"d\""},
         {"\"b\\nd\"", "\"bd\""});
  expect(R"({"type":"string","pattern":"^[^a-y\\d]*\\.?$"})", {"\"zé\\\\\"", "\"Z.\""},
         {"\"a\"", "\"1\"", "\"..a\""});
  expect(R"({"type":"string","pattern":"^a{0}b{2,}(?:c|)$"})", {"\"bb\"", "\"bbbc\""},
         {"\"abb\"", "\"b\""});
  expect(R"({"type":"string","format":"date"})", {"\"2024-02-29\""}, {"\"2024-13-01\""});
  expect(R"({"type":"string","format":"ipv4"})", {"\"10.0.255.1\""}, {"\"256.1.1.1\""});
  expect(R"({"type":"string","format":"date-time"})", {"\"2024-02-29T23:59:00.5+01:00\""},
         {"\"2024-02-29 23:59:00Z\""});
  expect(R"({"type":"string","format":"email"})", {"\"a.b@c-d.org\""}, {"\"a@b\"", "\"@b.c\""});
}

TEST(JsonSchema, Numbers) {
  for (const auto& [low, high] :
       {std::pair(-1, 0), {0, 9}, {3, 120}, {-5, 5}, {-120, -7}, {99, 1001}}) {
    const ByteGrammar integers =
        grammar_of(concat(R"({"type":"integer","minimum":)", low, R"(,"maximum":)", high, "}"));
    const ByteGrammar numbers = grammar_of(
        concat(R"({"type":"number","exclusiveMinimum":)", low, R"(,"maximum":)", high, "}"));
    for (int n = -1300; n <= 1300; ++n) {
      const std::string text = std::to_string(n);
      EXPECT_EQ(fits(integers, text), low <= n && n <= high)
          << text << " in " << low << ".." << high;
      EXPECT_EQ(fits(numbers, text), low < n && n <= high) << text << " in " << low << ".." << high;
      const double half = n < 0 ? n - 0.5 : n + 0.5;
      EXPECT_EQ(fits(numbers, text + ".50"), low < half && half <= high) << text << ".50";
    }
  }
  expect(R"({"type":"integer","exclusiveMinimum":7})", {"8", "10", "123456789012345678901"},
         {"7", "-8", "08", "8.0"});
  expect(R"({"type":"integer","maximum":-7.5})", {"-8", "-100"}, {"-7", "0", "8"});
  expect(R"({"type":"number","minimum":2})", {"2", "2.0", "2.5", "11"}, {"1.99", "-3", "2e5"});
  expect(R"({"type":"number","maximum":2,"minimum":2})", {"2", "2.00"}, {"2.01", "1.9"});
}

TEST(JsonSchema, AlternativesAndReferences) {
  expect(R"({"enum":["a","ab","b",1,null,{"x":[1,2]}]})",
         {"\"a\"", "\"ab\"", "1", "null", R"({"x":[1,2]})"}, {"\"abc\"", "\"", "2"});
  expect(R"({"enum":["a",1],"type":"string"})", {"\"a\""}, {"1"});
  expect(R"({"const":1,"type":["string","integer"]})", {"1"}, {"\"1\""});
  expect(R"({"type":["integer","null"]})", {"5", "null"}, {"\"a\"", "1.5"});
  expect(R"({"anyOf":[{"type":"integer"},{"type":"object","properties":{"n":{"$ref":"#"}},
             "required":["n"],"additionalProperties":false}]})",
         {"1", R"({"n":{"n":2}})"}, {"{}", R"({"n":[]})"});
  expect(
      R"({"$ref":"#/$defs/list","$defs":{"list":{"type":"array","items":{"$ref":"#/$defs/list"}}}})",
      {"[]", "[[], [[]]]"}, {"[1]"});
}

TEST(JsonSchema, WhatRefersToItselfThroughManyOthersIsRefused) {
  std::string chain = R"({"$ref":"#/$defs/0","$defs":{)";
  for (int i = 0; i < 100'000; ++i)
    chain += concat("\"", i, R"(":{"$ref":"#/$defs/)", i + 1, "\"},");
  EXPECT_EQ(refusal(chain + R"("100000":{"type":"null"}}})"),
            "#/$defs/199: more than 200 schemas in each other");
  expect(R"({"prefixItems":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"type":"array",
             "minItems":2,"items":false,"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"const":1}}})",
         {"[1,1]"}, {"[1]"});
}

TEST(JsonSchema, WhatIsRefused) {
  EXPECT_EQ(refusal("1"), "schema: expected an object, true or false");
  EXPECT_EQ(refusal(R"({"type":"object","patternProperties":{}})"),
            "schema: patternProperties is not supported");
  EXPECT_EQ(refusal(R"({"type":"object","properties":{"a":{"items":{"if":1}}}})"),
            "schema.a.items: if is not supported");
  EXPECT_EQ(refusal(R"({"type":"int"})"),
            "schema: type: expected object, array, string, number, integer, boolean or null");
  EXPECT_EQ(refusal(R"({"title description":1})"), "schema: title description is not supported");
  EXPECT_EQ(refusal(R"({"":1})"), "schema:  is not supported");
  EXPECT_EQ(refusal(R"({"const":1,"type":"string"})"), "schema: no text of finite length fits");
  const std::string any = concat(R"({"type":"string","pattern":"[a)", std::string(1021, 'b'));
  EXPECT_EQ(refusal(any + "]\"}"), "");
  EXPECT_EQ(refusal(any + "b]\"}"), "schema: pattern: more than 1024 bytes");
  EXPECT_EQ(refusal(R"({"anyOf":[],"title":""})"),
            "schema.anyOf: expected a list that is not empty");
  EXPECT_EQ(refusal(R"({"anyOf":[true],"type":"string"})"),
            "schema: type beside anyOf is not supported");
  EXPECT_EQ(refusal(R"({"$ref":"#/x"})"),
            "schema.$ref: #/x: expected # or a name in #/$defs/ or #/definitions/");
  EXPECT_EQ(refusal(R"({"$ref":"#"})"), "schema: no text of finite length fits");
  EXPECT_EQ(refusal(R"({"anyOf":[{"$ref":"#"},{"const":1}]})"),
            "schema: is defined by nothing but itself");
  EXPECT_EQ(refusal(R"({"type":"object","required":["n"],"properties":{"n":{"$ref":"#"}}})"),
            "schema: no text of finite length fits");
  EXPECT_EQ(refusal("false"), "schema: no text of finite length fits");
  EXPECT_EQ(refusal(R"({"type":"array","items":false,"minItems":1})"),
            "schema: no text of finite length fits");
  EXPECT_EQ(refusal(R"({"type":"string","minLength":5,"maxLength":4})"),
            "schema: maxLength is less than minLength");
  EXPECT_EQ(refusal(R"({"type":"string","maxLength":5000})"),
            "schema: maxLength: expected an integer from 0 to 4096");
  EXPECT_EQ(refusal(R"({"type":"number","minimum":0.5})"),
            "schema: minimum: a bound with a fraction is not supported");
  EXPECT_EQ(refusal(R"({"type":"object","required":["a"],"additionalProperties":false})"),
            "schema: required: a is none of the properties");
  for (const char* pattern : {"(", ")", "[", "a**", "*", "a{2,1}", "a{1001}", "(?=a)", "\\\\b",
                              "\\\\", "a^b", "[b-a]", "\\\\q", "((((a{1000}){1000}){1000}){1000})"})
    EXPECT_NE(refusal(concat(R"({"type":"string","pattern":")", pattern, "\"}")), "") << pattern;
}

}  // namespace
}  // namespace mt
