// What counts as a line of JSON is what Python 3.11's json.loads says.
#include "data/corpus/json_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/input/line_reader.h"
#include "data/corpus/json_copy.h"

namespace mt {
namespace {

using Texts = std::vector<std::vector<std::string>>;

struct Parsed {
  std::string wrong;
  Texts texts;
};

Parsed parse(const std::string& line, const std::vector<std::string>& keys = {"text"}) {
  JsonLineParser parser(keys);
  const std::string padded =
      line + std::string(LineBlock::kPadding, '}');  // never to be read as JSON
  Parsed parsed{parser.parse(std::string_view(padded).substr(0, line.size())), {}};
  if (!parsed.wrong.empty()) return parsed;
  for (const auto& texts : parser.texts()) parsed.texts.emplace_back(texts.begin(), texts.end());
  return parsed;
}

TEST(JsonLineParser, Texts) {
  EXPECT_EQ(parse(R"({"text":"Hello"})").texts, (Texts{{"Hello"}}));
  EXPECT_EQ(parse(R"( { "id" : 1, "text" : ["a","","b"] } )").texts, (Texts{{"a", "", "b"}}));
  EXPECT_EQ(parse(R"({"text":[]})").texts, (Texts{{}}));
  EXPECT_EQ(parse("{\"text\":\"a\"}\r").texts, (Texts{{"a"}}));
  EXPECT_EQ(parse(R"({"te\u0078t":"a\n\t\"\\\/\u00e9\ud83d\ude00"})").texts,
            (Texts{{"a\n\t\"\\/\xC3\xA9\xF0\x9F\x98\x80"}}));
  EXPECT_EQ(parse(R"({"text":"nul\u0000byte"})").texts, (Texts{{std::string("nul\0byte", 8)}}));
}

TEST(JsonLineParser, SeveralKeysInAnyOrder) {
  EXPECT_EQ(parse(R"({"b":"2","x":{"a":"no"},"a":["1"]})", {"a", "b"}).texts,
            (Texts{{"1"}, {"2"}}));
  EXPECT_EQ(parse(R"({"b":"2"})", {"a", "b"}).wrong, "no key \"a\"");
}

TEST(JsonLineParser, KeysAreComparedAsTheyRead) {
  EXPECT_EQ(parse(R"({"ab":"2","a":"1"})", {"a", "ab"}).texts, (Texts{{"1"}, {"2"}}));
  EXPECT_EQ(parse(R"({"a\\b":"1"})", {R"(a\b)"}).texts, (Texts{{"1"}}));
  EXPECT_EQ(parse(R"({"a\b":"1"})", {R"(a\b)"}).wrong, R"(no key "a\b")");
  EXPECT_EQ(parse(R"({"a\"b":"1"})", {"a\"b"}).texts, (Texts{{"1"}}));
  EXPECT_EQ(parse(R"({"a"b":"1"})", {"a\"b"}).wrong, "malformed JSON: a string is not closed");
  EXPECT_EQ(parse("{\"a\tb\":\"1\"}", {"a\tb"}).wrong,
            "malformed JSON: a control character in a string");
  EXPECT_EQ(parse("{\"\xC3\xA9\":\"1\"}", {"\xC3\xA9"}).texts, (Texts{{"1"}}));
  EXPECT_EQ(parse("{\"\xC3\":\"1\"}", {"\xC3"}).wrong, "invalid UTF-8");
  EXPECT_EQ(parse(R"({"":"1"})", {""}).texts, (Texts{{"1"}}));
}

TEST(JsonLineParser, OfEqualKeysTheLastCounts) {
  EXPECT_EQ(parse(R"({"text":"a","text":"b"})").texts, (Texts{{"b"}}));
  EXPECT_EQ(parse(R"({"text":7,"text":"b"})").texts, (Texts{{"b"}}));
  EXPECT_EQ(parse(R"({"text":"b","text":7})").wrong, "the value of \"text\" is not a string");
}

TEST(JsonLineParser, OtherMembersMayHoldWhatPythonReads) {
  for (const char* value : {"NaN", "Infinity", "-Infinity", "123456789012345678901234567890", "-0",
                            "1.5e-999", "\"\\ud800\"", "[[],{}]", "{\"a\":[1,{\"b\":null}]}"})
    EXPECT_EQ(parse(std::string(R"({"x":)") + value + R"(,"text":"a"})").wrong, "") << value;
}

TEST(JsonLineParser, MalformedAnywhereIsRefused) {
  for (const char* line : {R"({"text":"a")",
                           R"({"text":"a"}})",
                           R"({"text":"a"}{"text":"b"})",
                           R"({"text":"a",})",
                           R"({"text":"a" "x":1})",
                           R"({"text" "a"})",
                           R"({text:"a"})",
                           R"({'text':'a'})",
                           R"({"text":"a","x":01})",
                           R"({"text":"a","x":1.})",
                           R"({"text":"a","x":.5})",
                           R"({"text":"a","x":+1})",
                           R"({"text":"a","x":tru})",
                           R"({"text":"a","x":nan})",
                           R"({"text":"a","x":[1,2,]})",
                           R"({"text":"a","x":[1 2]})",
                           R"({"text":"a","x":{"b":}})",
                           R"({"text":"a","x":{"b":[1,"c":null}]}})",
                           R"({"text":"a","x":"b":[1]})",
                           R"({"text":"a","x":"\q"})",
                           R"({"text":"a","x":"\u12g4"})",
                           R"({"text":"a\u12"})",
                           R"({"te\qxt":"a","text":"a"})",
                           "{\"text\":\"a\"}\xEF\xBB\xBF"})
    EXPECT_NE(parse(line).wrong, "") << line;
}

TEST(JsonLineParser, SaysWhatIsWrong) {
  EXPECT_EQ(parse("").wrong, "empty line, expected a JSON object");
  EXPECT_EQ(parse(" \t").wrong, "empty line, expected a JSON object");
  EXPECT_EQ(parse("[]").wrong, "not a JSON object");
  EXPECT_EQ(parse("\"text\"").wrong, "not a JSON object");
  for (const char* array : {"[", " [ ", "[{\"text\":\"a\"},", "[ {\"text\":\"a\"}]", "[{"})
    EXPECT_EQ(parse(array).wrong,
              "a JSON array, expected one object a line, which jq -c '.[]' makes of it");
  for (const char* object : {"{\"text\":\"a\"},", "{\"text\":\"a\",\"b\":{}},"})
    EXPECT_EQ(parse(object).wrong, "a comma behind the object, expected one object a line");
  for (const char* object :
       {"{", " {\t", "{\"text\":\"a\",", "{\"a\":[", "{\"a\": {", "{\"a\":{\"b\":1},"})
    EXPECT_EQ(
        parse(object).wrong,
        "an object over several lines, expected one object a line, which jq -c . makes of it");
  EXPECT_EQ(parse("{}").wrong, "no key \"text\"");
  EXPECT_EQ(parse(R"({"text":"a)").wrong, "malformed JSON: a string is not closed");
  EXPECT_EQ(parse("{\"text\":\"a\tb\"}").wrong, "malformed JSON: a control character in a string");
  EXPECT_EQ(parse("{\"text\":\"\xC3\"}").wrong, "invalid UTF-8");
  EXPECT_EQ(parse("{\"x\":\"\xFF\",\"text\":\"a\"}").wrong, "invalid UTF-8");
  EXPECT_EQ(parse(R"({"text":null})").wrong, "the value of \"text\" is not a string");
  EXPECT_EQ(parse(R"({"text":["a",["b"]]})").wrong,
            "the value of \"text\" is a list of something else than strings");
  EXPECT_EQ(parse(R"({"text":"\ud800"})").wrong,
            "the value of \"text\" holds half a surrogate pair");
}

TEST(JsonLineParser, DeepNestingIsRefusedWithoutACrash) {
  const std::string deep(100000, '[');
  EXPECT_EQ(parse("{\"text\":\"a\",\"x\":" + deep + std::string(100000, ']') + "}").wrong,
            "malformed JSON: nested too deeply");
  EXPECT_NE(parse("{\"text\":\"a\",\"x\":" + deep).wrong, "");
}

// A line whose members are strings is read in one pass; with a number among them it is not.
TEST(JsonLineParser, OnePassReadsWhatSeveralRead) {
#ifdef MT_SANITIZE_ADDRESSES
  constexpr int kLines = 10000;
#else
  constexpr int kLines = 100000;
#endif
  std::mt19937_64 random(1);
  const std::vector<std::string> parts = {
      "\"",
      "\"",
      ":",
      ",",
      "{",
      "}",
      " ",
      "\t",
      "\"a\"",
      "\"text\"",
      "\"b\":\"c\"",
      "\"text\":\"",
      "\\n",
      "\\\"",
      "\\u00e9",
      "\\ud83d\\ude00",
      "\\ude00",
      "\\u12",
      "\\q",
      "\xC3\xA9",
      "\xFF",
      "\x01",
      "[]",
      "7",
      "text that is longer than the thirty-two bytes that are looked at together",
      "\",\"",
      "\":\"",
      std::string(1, '\0')};
  int taken = 0;
  for (int i = 0; i < kLines; ++i) {
    std::string members = "\"text\":\"";
    for (auto n = random() % 6; n > 0; --n) members += parts[random() % parts.size()];
    if (random() % 8 != 0) members += '"';
    const Parsed one = parse("{" + members + "}");
    const Parsed several = parse("{\"x\":0," + members + "}");
    EXPECT_EQ(one.wrong, several.wrong) << members;
    EXPECT_EQ(one.texts, several.texts) << members;
    taken += one.wrong.empty() ? 1 : 0;
  }
  EXPECT_GT(taken, kLines / 10);
}

TEST(JsonLineParser, ReadsOneLineAfterAnother) {
  const std::vector<std::string> lines = {R"({"text":"a\nb"})",
                                          "",
                                          R"({"text":7})",
                                          R"({"text":"open)",
                                          R"( {"text" : "b"} )",
                                          "{\"text\":\"\xFF\"}",
                                          R"({"text":"\)",
                                          R"({"text":"\u1)",
                                          R"("},)",
                                          "\r",
                                          R"({"text":"é"})",
                                          R"({"x":1})",
                                          "{\"text\":\"c\"}\r",
                                          R"({"text":"last"})"};
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  for (const bool ended : {true, false}) {
    const std::string padded = text + std::string(LineBlock::kPadding, '}');
    std::string_view rest = std::string_view(padded).substr(0, text.size() - (ended ? 0 : 1)), line;
    JsonLineParser parser({"text"});
    for (const std::string& expected : lines) {
      const Parsed one = parse(expected);
      EXPECT_EQ(parser.parse_first(rest, line), one.wrong) << expected;
      EXPECT_EQ(line, expected);
      if (one.wrong.empty()) {
        EXPECT_EQ(parser.texts()[0][0], one.texts[0][0]);
      }
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    }
    EXPECT_EQ(rest, "");
  }
}

TEST(JsonLineParser, StringsOfAnyLength) {
  for (std::size_t length = 0; length < 200; ++length)
    for (const char* end : {"", "\\n", "\\u20ac", "\xC3\xA9"}) {
      const std::string text(length, 'x');
      EXPECT_EQ(parse("{\"text\":\"" + text + end + "\"}").texts,
                parse("{\"y\":1,\"text\":\"" + text + end + "\"}").texts);
      EXPECT_NE(parse("{\"text\":\"" + text + end).wrong, "");
    }
}

// What a JsonCopier does, a byte at a time.
std::pair<std::string, std::size_t> copy_slowly(std::string_view text) {
  const std::string letters = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
  std::string copied;
  std::size_t at = 0;
  while (at < text.size() && text[at] != '"' && static_cast<unsigned char>(text[at]) >= 0x20) {
    if (text[at] == '\\') {
      const std::size_t letter = letters.find(text[at + 1]);
      if (letter == letters.npos) break;
      ++at;
      copied += meant[letter];
    } else {
      copied += text[at];
    }
    ++at;
  }
  return {copied, at};
}

TEST(JsonCopier, EachCopiesWhatASlowLoopCopies) {
  std::mt19937_64 random(2);
  const std::string odd = "\\\\\\\\\"\"nrtbf/uq\x01\n\x1f\x7f\xC3\xA9\xEF";
  for (int i = 0; i < 50000; ++i) {
    const std::size_t plain = random() % 150;  // of so many bytes one is odd
    std::string text(random() % 300, 'x');
    for (char& c : text)
      if (random() % (plain + 1) == 0) c = odd[random() % odd.size()];
    const auto [expected, end] = copy_slowly(text + "\"");
    const std::string padded = text + "\"" + std::string(kJsonPadding, '\\');
    for (const JsonCopier copier : {portable_json_copier(), json_copier()}) {
      std::string room(text.size() + 1 + kJsonPadding, '?');
      const JsonCopy copy = copier(padded.data(), padded.data() + text.size() + 1, room.data());
      room.resize(static_cast<std::size_t>(copy.room - room.data()));
      EXPECT_EQ(room, expected) << text;
      EXPECT_EQ(copy.at - padded.data(), static_cast<std::ptrdiff_t>(end)) << text;
      const bool ascii = std::ranges::all_of(room, [](char c) { return c >= 0; });
      EXPECT_TRUE(ascii || !copy.ascii) << text;
    }
  }
}

}  // namespace
}  // namespace mt
