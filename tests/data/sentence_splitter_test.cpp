// Sentences: Punkt against nltk's own (scripts/make-sentence-goldens.py), and Unicode's rules.
#include "data/corpus/sentence_splitter.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/input/line_reader.h"
#include "data/corpus/json_lines.h"
#include "tests/data/support.h"

namespace mt {
namespace {

const char* const kModel = MT_TESTDATA "/punkt";
using Texts = std::vector<std::string>;

Texts split(const SentenceOptions& options, std::string_view text) {
  std::vector<std::string_view> sentences;
  make_sentence_splitter(options, Log())->split(text, sentences);
  return {sentences.begin(), sentences.end()};
}

TEST(Punkt, SplitsAsNltkDoes) {
  const auto plain = make_sentence_splitter({.split = true, .punkt_model = kModel}, Log());
  const auto keeping =
      make_sentence_splitter({.split = true, .keep_newlines = true, .punkt_model = kModel}, Log());
  LineReader reader({.inputs = {std::string(kModel) + "/sentences.jsonl"}});
  JsonLineParser parser({"text", "sentences", "keeping"});
  LineBlock block;
  int cases = 0;
  while (reader.next(block))
    for_each_line(block, [&](std::string_view line, std::int64_t number) {
      ASSERT_EQ(parser.parse(line), "") << number;
      const std::string_view text = parser.texts()[0].front();
      std::vector<std::string_view> sentences;
      plain->split(text, sentences);
      EXPECT_EQ(sentences, parser.texts()[1]) << "line " << number << ": " << text;
      sentences.clear();
      keeping->split(text, sentences);
      EXPECT_EQ(sentences, parser.texts()[2]) << "line " << number << ": " << text;
      ++cases;
    });
  EXPECT_EQ(cases, 211);
}

TEST(Punkt, CutsAfterAMillionCharacters) {
  const std::string text = std::string(999'999, 'a') + "\xC3\xA9" + "bc. The";
  EXPECT_EQ(split({.split = true, .punkt_model = kModel}, text),
            (Texts{std::string(999'999, 'a') + "\xC3\xA9", "bc.", "The"}));
}

TEST(Punkt, IsLinearInOneLongWord) {
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += "a!(";
  EXPECT_EQ(split({.split = true, .punkt_model = kModel}, text + " The").size(), 2U);
  EXPECT_EQ(split({.split = true, .keep_newlines = true, .punkt_model = kModel}, text).size(), 2U);
}

TEST(Punkt, FindsItsModelAndRefusesADamagedOne) {
  const Scratch folder;
  const std::string model = folder.path("tokenizers/punkt_tab/klingon");
  std::filesystem::create_directories(model);
  std::filesystem::copy(kModel, model);
  ::setenv("NLTK_DATA", ("/nowhere:" + folder.path("")).c_str(), 1);
  EXPECT_EQ(split({.split = true, .lang = "klingon"}, "Mr. Smith. The end."),
            (Texts{"Mr. Smith.", "The end."}));
  write_file_atomically(model + "/ortho_context.tab", "the\t46\nit\n", true);
  EXPECT_EQ(error_of([&] { split({.split = true, .lang = "klingon"}, ""); }),
            "65 " + folder.path("") +
                "/tokenizers/punkt_tab/klingon/ortho_context.tab:2: expected a "
                "word, a tab and a number");
  write_file_atomically(model + "/collocations.tab", "a\n", true);
  EXPECT_EQ(code_of([&] { split({.split = true, .lang = "klingon"}, ""); }), Exit::bad_data);
  std::filesystem::remove(model + "/sent_starters.txt");
  EXPECT_EQ(code_of([&] { split({.split = true, .lang = "klingon"}, ""); }), Exit::no_input);
  EXPECT_EQ(code_of([&] { split({.split = true, .lang = "vulcan"}, ""); }), Exit::no_input);
  EXPECT_EQ(code_of([&] { split({.split = true, .lang = "../english"}, ""); }), Exit::usage);
  ::unsetenv("NLTK_DATA");
}

TEST(UnicodeRules, SplitOtherLanguages) {
  EXPECT_EQ(split({.split = true, .lang = "ja"}, "\u732B\u3002\u72AC\u3002 x"),
            (Texts{"\u732B\u3002", "\u72AC\u3002", "x"}));
  EXPECT_EQ(split({.split = true, .keep_newlines = true, .lang = "de"}, "Eins. \n Zwei!  "),
            (Texts{"Eins. \n", " Zwei!  "}));
  EXPECT_EQ(split({.split = true, .lang = "de-u-ss-standard"}, "Das ist z.B. Kaffee. Gut."),
            (Texts{"Das ist z.B. Kaffee.", "Gut."}));
  EXPECT_EQ(split({.split = true, .lang = "en"}, " \n "), Texts{});
  for (const char* lang : {"qq", "xxx", "de-"})
    EXPECT_EQ(code_of([&] { split({.split = true, .lang = lang}, ""); }), Exit::usage) << lang;
}

// In languages that nltk has no model of.
TEST(UnicodeRules, StandInForAModel) {
  EXPECT_EQ(split({.split = true, .lang = "japanese"}, "\u732B\u3002\u72AC\u3002 x"),
            (Texts{"\u732B\u3002", "\u72AC\u3002", "x"}));
  const auto hungarian = make_sentence_splitter({.split = true, .lang = "hungarian"}, Log());
  EXPECT_EQ(hungarian->identity(), "Unicode's rules, hu-u-ss-standard");
}

TEST(SentenceOptions, ThatWouldDoNothingAreRefused) {
  EXPECT_EQ(make_sentence_splitter({}, Log()), nullptr);
  EXPECT_EQ(code_of([] { make_sentence_splitter({.keep_newlines = true}, Log()); }), Exit::usage);
  EXPECT_EQ(code_of([] { make_sentence_splitter({.lang = "de"}, Log()); }), Exit::usage);
  EXPECT_EQ(code_of([] { make_sentence_splitter({.punkt_model = kModel}, Log()); }), Exit::usage);
}

}  // namespace
}  // namespace mt
