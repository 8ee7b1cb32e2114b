// RACE, MNLI, QQP and files of labels: what is read of them, and what is said of what is none.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/log.h"
#include "post/labels/glue_files.h"
#include "post/labels/labelled_lines.h"
#include "post/labels/race_folder.h"
#include "tests/base/scratch.h"

namespace mt {
namespace {

TEST(CleanText, IsMegatrons) {
  EXPECT_EQ(clean_text("a\n\t b \xC2\xA0 c"), "a b c");
  EXPECT_EQ(clean_text(" a . b . c"), " a. b. c");
  EXPECT_EQ(clean_text("a . . . . b"), "a. ... b");
  EXPECT_EQ(clean_text(""), "");
  EXPECT_EQ(strip(" \xE3\x80\x80 a b \n"), "a b");
  EXPECT_EQ(strip(" \n"), "");
}

class LabelledFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    const std::string path = scratch_.path(name);
    std::filesystem::create_directories(parent_directory(path));
    write_file_atomically(path, content, true);
    return path;
  }
  // The line that ends the reading, without the folder's name.
  std::string refusal(const std::function<void()>& read) {
    std::string line = error_of(read);
    const std::string folder = scratch_.path("");
    for (std::size_t at; (at = line.find(folder)) != line.npos;) line.erase(at, folder.size());
    return line;
  }
  const Log log_{{.level = Log::Level::quiet}};
  Scratch scratch_;
};

constexpr const char* kMnli =
    "index\ta\tb\tc\td\te\tf\tg\tsentence1\tsentence2\tlabel1\tgold_label\n";

TEST_F(LabelledFiles, MnliHasItsColumns) {
  const std::string path =
      write("train.tsv", concat(kMnli, "7\t\t\t\t\t\t\t\tA  cat . it sat\tIt\tx\tneutral\r\n",
                                "9\t1\t2\t3\t4\t5\t6\t7\tone\ttwo\tcontradiction\n"));
  const LabelledSet set = read_mnli(path, log_);
  EXPECT_EQ(set.uids, (std::vector<std::int64_t>{7, 9}));
  EXPECT_EQ(set.labels, (std::vector<std::int32_t>{2, 0}));
  EXPECT_EQ(set.texts, (std::vector<std::string>{"A cat. it sat", "It", "one", "two"}));
  EXPECT_TRUE(set.has_labels);
  const LabelledSet test = read_mnli(
      write("test.tsv", "a\tb\tc\td\te\tf\tg\th\ti\tj\n3\t1\t2\t3\t4\t5\t6\t7\tx\ty\n"), log_);
  EXPECT_FALSE(test.has_labels);
  EXPECT_EQ(test.labels, (std::vector<std::int32_t>{0}));
}

TEST_F(LabelledFiles, MnliIsRefusedByItsLine) {
  const auto of = [&](const std::string& lines) {
    const std::string path = write("a.tsv", lines);
    return refusal([&] { read_mnli(path, log_); });
  };
  EXPECT_EQ(of(""), "65 a.tsv: is empty, expected a line that names the columns");
  EXPECT_EQ(of("a\tb\n"), "65 a.tsv:1: 2 columns, expected at least 10");
  EXPECT_EQ(of(kMnli), "65 a.tsv: has no samples");
  EXPECT_EQ(of(concat(kMnli, "1\t2\t3\n")), "65 a.tsv:2: 3 columns, expected at least 9");
  const std::string row = "1\t1\t2\t3\t4\t5\t6\t7\tone\ttwo\t";
  EXPECT_EQ(of(concat(kMnli, row, "maybe\n")),
            "65 a.tsv:2: label \"maybe\", expected contradiction, entailment, neutral");
  EXPECT_EQ(of(concat(kMnli, "x", row, "neutral\n")),
            "65 a.tsv:2: uid \"x1\", expected a number of at least 0");
  EXPECT_EQ(of(concat(kMnli, "1\t1\t2\t3\t4\t5\t6\t7\t \ttwo\tneutral\n")),
            "65 a.tsv:2: a text is empty");
}

TEST_F(LabelledFiles, QqpPassesOverOtherLines) {
  const std::string path = write("train.tsv",
                                 "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
                                 "4\t1\t2\tone ?\ttwo ?\t1\n5\t1\t2\tone ?\n6\t1\t2\t\ttwo\t0\n"
                                 "8\t1\t2\tthree\tfour\t0\n");
  const LabelledSet set = read_qqp(path, log_);
  EXPECT_EQ(set.uids, (std::vector<std::int64_t>{4, 8}));
  EXPECT_EQ(set.labels, (std::vector<std::int32_t>{1, 0}));
  const std::string wrong = write("wrong.tsv", "a\tb\tc\td\te\tf\n4\t1\t2\tone\ttwo\t2\n");
  EXPECT_EQ(refusal([&] { read_qqp(wrong, log_); }), "65 wrong.tsv:2: label \"2\", expected 0, 1");
  const std::string header = write("header.tsv", "a\tb\n");
  EXPECT_EQ(refusal([&] { read_qqp(header, log_); }),
            "65 header.tsv:1: 2 columns, expected 3 or 6");
  const LabelledSet test = read_qqp(write("test.tsv", "id\ta\tb\n3\tone\ttwo\n"), log_);
  EXPECT_FALSE(test.has_labels);
}

constexpr const char* kArticle =
    R"({"article": "A  b . c", "questions": ["It is _ _.", "What?"], "answers": ["B", "D"],)"
    R"( "options": [["w", "x", "y", "z"], ["1", "2", "3", "4"]]})";

TEST_F(LabelledFiles, RaceHasFourChoicesOfEachQuestion) {
  write("middle/2.txt", concat(kArticle, "\n"));
  write("middle/10.txt", concat(kArticle, "\n\n", kArticle));
  write("middle/notes", "no JSON");
  const LabelledSet set = read_race(scratch_.path("middle"));
  EXPECT_EQ(set.samples(), 6);
  EXPECT_EQ(set.choices, 4);
  EXPECT_EQ(set.labels, (std::vector<std::int32_t>{1, 3, 1, 3, 1, 3}));
  EXPECT_EQ(set.uids, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(set.pairs.size(), 24u);
  const auto text = [&](std::int64_t i) { return set.texts[static_cast<std::size_t>(i)]; };
  EXPECT_EQ(text(set.pairs[1].a), "It is x x.");
  EXPECT_EQ(text(set.pairs[1].b), "A b. c");
  EXPECT_EQ(text(set.pairs[6].a), "What? 3");
}

TEST_F(LabelledFiles, RaceIsRefusedByItsLine) {
  std::filesystem::create_directory(scratch_.path("empty"));
  EXPECT_EQ(refusal([&] { read_race(scratch_.path("empty")); }),
            "66 empty: has no .txt files, expected those of RACE");
  EXPECT_EQ(refusal([&] { read_race(scratch_.path("none")); }).substr(0, 8), "66 none:");
  const auto of = [&](const std::string& line) {
    write("race/1.txt", line);
    return refusal([&] { read_race(scratch_.path("race")); });
  };
  EXPECT_EQ(of("\n"), "65 race: has no questions");
  EXPECT_TRUE(of("{").starts_with("65 race/1.txt:1: "));
  EXPECT_EQ(
      of(R"({"article": "a", "questions": ["q"], "answers": ["E"], "options": [["1","2","3","4"]]})"),
      "65 race/1.txt:1: answer \"E\", expected A, B, C or D");
  EXPECT_EQ(of(R"({"article": "a", "questions": ["q"], "answers": ["A"], "options": [["1","2"]]})"),
            "65 race/1.txt:1: 2 options of a question, expected 4");
  EXPECT_EQ(of(R"({"article": "a", "questions": ["q"], "answers": [], "options": []})"),
            "65 race/1.txt:1: 1 questions, 0 options and 0 answers, expected as many of each");
}

TEST_F(LabelledFiles, LabelsAreNumberedByTheirSortedNames) {
  const LabelledFile file{
      write("a.jsonl",
            "{\"text\": \"x\", \"label\": \"no\"}\n\n"
            "{\"text\": \"y\", \"text_b\": \"z\", \"label\": \"a b\", \"uid\": 9}\n"),
      ""};
  const LabelNames names = read_label_names({file});
  EXPECT_EQ(names.names, (std::vector<std::string>{"a b", "no"}));
  const LabelledSet set = read_labelled(file, names);
  EXPECT_EQ(set.labels, (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(set.uids, (std::vector<std::int64_t>{1, 9}));
  EXPECT_EQ(set.pairs[0].b, -1);
  EXPECT_EQ(set.pairs[1].b, 2);
  const LabelledFile other{write("b.jsonl", "{\"text\": \"x\", \"label\": \"yes\"}\n"), ""};
  EXPECT_EQ(refusal([&] { read_labelled(other, names); }),
            "65 b.jsonl:1: label \"yes\", expected a b, no");
  const LabelledFile none{write("c.jsonl", "{\"text\": \"x\"}\n"), ""};
  EXPECT_FALSE(read_labelled(none, names).has_labels);
  EXPECT_EQ(refusal([&] { read_label_names({none}); }),
            "65 c.jsonl:1: has no label, which is learnt");
}

TEST(HeldOut, EqualTextsStayTogether) {
  LabelledSet set{.name = "set", .kind = LabelKind::numbers};
  for (int i = 0; i < 400; ++i) {
    const std::int64_t a = set.add_text(concat("text ", i / 2));
    const std::int64_t b = i % 4 < 2 ? -1 : set.add_text("other");
    set.pairs.push_back({a, b});
    set.numbers.insert(set.numbers.end(), {float(i), float(-i)});
    set.uids.push_back(i);
  }
  const LabelledSet held = held_out(set, 0.25);
  EXPECT_EQ(held.samples() + set.samples(), 400);
  EXPECT_NEAR(double(held.samples()), 100, 40);
  for (const LabelledSet* const part : {&held, static_cast<const LabelledSet*>(&set)}) {
    ASSERT_EQ(part->numbers.size(), 2 * part->uids.size());
    for (std::size_t i = 0; i < part->uids.size(); ++i) {
      const std::int64_t uid = part->uids[i];
      EXPECT_EQ(part->numbers[2 * i + 1], float(-uid));
      EXPECT_EQ(part->texts[std::size_t(part->pairs[i].a)], concat("text ", uid / 2));
      EXPECT_EQ(part->pairs[i].b < 0, uid % 4 < 2);
      EXPECT_EQ(part->uids[i ^ 1], uid ^ 1);  // its twin
    }
  }
}

TEST_F(LabelledFiles, LabelsAreOfOneKind) {
  const auto kind = [&](const std::string& first, const std::string& second) {
    const std::string path =
        write("a.jsonl", concat("{\"text\":\"x\",\"label\":", first,
                                "}\n{\"text\":\"y\",\"label\":", second, "}\n"));
    LabelNames names;
    const std::string line = refusal([&] { names = read_label_names({{path, ""}}); });
    return line.empty() ? concat(static_cast<int>(names.kind), " ", names.scores()) : line;
  };
  EXPECT_EQ(kind("3", "0"), "0 4");
  EXPECT_EQ(kind("true", "false"), "0 2");
  EXPECT_EQ(kind("0.5", "2"), "1 1");
  EXPECT_EQ(kind("-1", "0.5"), "1 1");
  EXPECT_EQ(kind("[0.5, 2]", "[1, 2]"), "1 2");
  EXPECT_EQ(kind("[\"b\"]", "[\"a\", \"b\"]"), "2 2");
  EXPECT_EQ(kind("3", "\"a\""),
            "65 a.jsonl:2: the label is a text, expected an integer as in the lines before");
  EXPECT_EQ(kind("-1", "0"), "65 a.jsonl:1: label -1, expected at least 0");
  EXPECT_EQ(kind("[1, \"a\"]", "0"),
            "65 a.jsonl:1: \"label\": a list of texts and numbers, expected one of both");
}

TEST_F(LabelledFiles, ColumnsAreNumberedOrNamed) {
  const LabelledFile named{write("a.tsv", "id\tsentence\tlabel\n5\tone\tgood\n6\ttwo\tbad\n"),
                           "text=sentence,label=label,uid=id"};
  const LabelledSet set = read_labelled(named, read_label_names({named}));
  EXPECT_EQ(set.texts, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(set.labels, (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(set.uids, (std::vector<std::int64_t>{5, 6}));
  const LabelledFile quoted{write("b.csv", "\"a, \"\"b\"\"\",c,1\nd,e,0\n"),
                            "text=1,text_b=2,label=3"};
  EXPECT_EQ(read_labelled(quoted, read_label_names({quoted})).texts,
            (std::vector<std::string>{"a, \"b\"", "c", "d", "e"}));
  const auto of = [&](const std::string& columns) {
    return refusal([&] { read_label_names({{named.path, columns}}); });
  };
  EXPECT_EQ(of("text=sentence,label=class"), "65 a.tsv:1: has no column class");
  EXPECT_EQ(of("text=2,label=7"), "65 a.tsv:1: 3 columns, expected at least 7");
  EXPECT_EQ(of("label=3"), "64 --columns label=3: names no text");
  EXPECT_TRUE(of("words=1").starts_with("64 --columns words=1: expected text=COLUMN"));
}

}  // namespace
}  // namespace mt
