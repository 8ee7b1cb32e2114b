#include "post/data/judged_lines.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "post/preferences/preference_samples.h"

namespace mt {
namespace {

std::vector<JudgedText> read(const std::string& line, Judged judged = Judged::pairs) {
  return read_judged_line(chat_value_of_json(line, "line"), judged, "line");
}

std::string mistake_in(const std::string& line, Judged judged = Judged::pairs) {
  try {
    read(line, judged);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::bad_data);
    return error.what();
  }
  return "none";
}

void expect_texts(const std::string& line, const char* prompt, const char* chosen,
                  const char* rejected) {
  const auto texts = read(line);
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[0].text.prompt, prompt);
  EXPECT_EQ(texts[1].text.prompt, prompt);
  EXPECT_EQ(texts[0].text.completion, chosen);
  EXPECT_EQ(texts[1].text.completion, rejected);
}

// The first two as TRL's extract_prompt() has them.
TEST(JudgedLines, WithoutAPromptWhatBothBeginWithIsIt) {
  expect_texts(R"({"chosen":"The sky is blue.","rejected":"The sky is green."})", "The sky is",
               " blue.", " green.");
  expect_texts(R"({"chosen":"ab cd","rejected":"ab ce"})", "ab c", "d", "e");
  expect_texts(R"({"chosen":"é","rejected":"è"})", "", "é", "è");
  EXPECT_EQ(mistake_in(R"({"chosen":"same","rejected":"same!"})"),
            "line: chosen: says nothing beyond the prompt");
}

TEST(JudgedLines, Messages) {
  const auto texts = read(R"({"chosen":[{"role":"user","content":"Q"},{"role":"assistant",
      "content":"A"}],"rejected":[{"role":"user","content":"Q"},{"role":"assistant","content":"B"}],
      "margin":0.5})");
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[0].value, 0.5);
  const auto& messages = *texts[1].text.messages.items();
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(*messages[0].find("weight")->integer(), 0);
  EXPECT_EQ(*messages[1].find("content")->text(), "B");
  EXPECT_EQ(messages[1].find("weight"), nullptr);
}

TEST(JudgedLines, OfRanksTheLowestIsChosen) {
  const std::string context = R"("context":[{"role":"user","content":"Q"}])";
  const auto completion = [](int rank, const char* text) {
    return concat(R"({"rank":)", rank, R"(,"completion":[{"role":"assistant","content":")", text,
                  "\"}]}");
  };
  const auto texts = read(concat("{", context, R"(,"completions":[)", completion(1, "worse"), ",",
                                 completion(0, "better"), "]}"));
  EXPECT_EQ(*(*texts[0].text.messages.items())[1].find("content")->text(), "better");
  EXPECT_EQ(mistake_in(concat("{", context, R"(,"completions":[)", completion(1, "a"), ",",
                              completion(1, "b"), "]}")),
            "line: both completions have rank 1");
}

TEST(JudgedLines, SingleTexts) {
  const auto texts = read(R"({"prompt":"P","completion":"C","label":false})", Judged::single);
  ASSERT_EQ(texts.size(), 1U);
  EXPECT_EQ(texts[0].value, 0);
  const auto both = read(R"({"prompt":"P","chosen":"C","rejected":"R"})", Judged::single);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].value, 1);
  EXPECT_EQ(both[1].value, 0);
}

TEST(JudgedLines, MistakesAreNamed) {
  EXPECT_EQ(mistake_in(R"({"prompt":"P","chosen":"C"})"), "line: no key rejected");
  EXPECT_EQ(mistake_in(R"({"prompt":"P","completion":"C"})", Judged::single),
            "line: no key chosen");
  EXPECT_EQ(mistake_in(R"({"prompt":"P","completion":"C","label":1})", Judged::single),
            "line: label: expected true or false");
  EXPECT_EQ(mistake_in(R"({"chosen":"C","rejected":["R"]})"),
            "line: chosen and rejected: expected two strings, or two lists of messages");
  EXPECT_EQ(mistake_in(R"({"prompt":"P","chosen":"C","rejected":""})"),
            "line: rejected: says nothing beyond the prompt");
  EXPECT_EQ(mistake_in(R"({"prompt":"P","chosen":"C","rejected":"R","margin":"1"})"),
            "line: margin: expected a number");
  EXPECT_EQ(mistake_in("[]"), "line: expected a JSON object");
}

TEST(JudgedLines, ATextIsPairedWithTheCompletionBefore) {
  const auto text = [](std::int32_t prompt, std::int32_t completion) {
    return Example{.ids = {prompt, completion, completion + 1}, .learnt = {false, true, true}};
  };
  const auto pairs = with_others_completions({text(1, 10), text(2, 20), text(3, 30)}, 2, 5);
  ASSERT_EQ(pairs.size(), 6U);
  EXPECT_EQ(pairs[0].ids, (std::vector<std::int32_t>{1, 10, 11}));
  EXPECT_EQ(pairs[1].ids, (std::vector<std::int32_t>{1, 20}));  // cut to what there is room for
  EXPECT_EQ(pairs[3].ids, (std::vector<std::int32_t>{2, 10}));
  EXPECT_EQ(pairs[5].ids, (std::vector<std::int32_t>{3, 30}));  // alone among its group
  EXPECT_EQ(pairs[5].learnt, (std::vector<bool>{false, true}));
}

}  // namespace
}  // namespace mt
