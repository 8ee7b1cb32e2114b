// Models of Punkt against those that nltk's PunktTrainer learns (scripts/compare-punkt.py).
#include "data/corpus/punkt_trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/input/line_reader.h"
#include "data/corpus/json_lines.h"
#include "data/corpus/punkt_training.h"
#include "data/corpus/sentence_splitter.h"
#include "tests/data/support.h"

namespace mt {
namespace {

using Rows = std::vector<std::string>;

// The rows of a model's files.
struct Model {
  Rows abbreviations, collocations, starters, contexts;
  bool operator==(const Model&) const = default;
};

Model learnt(PunktCounts& counts, CollocationKinds kinds) {
  counts.finish();
  const PunktParameters parameters = train_punkt(counts, kinds);
  Model model = {{parameters.abbreviations.begin(), parameters.abbreviations.end()},
                 {},
                 {parameters.starters.begin(), parameters.starters.end()},
                 {}};
  for (const auto& [first, second] : parameters.collocations)
    model.collocations.push_back(first + "\t" + second);
  for (const auto& [type, bits] : parameters.contexts)
    model.contexts.push_back(type + "\t" + std::to_string(bits));
  return model;
}

// What is learnt of a text line by line, as if each were of another block.
Model learnt_by_lines(std::string_view text, CollocationKinds kinds) {
  PunktCounts all;
  while (true) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    PunktCounts line;
    line.add_line(text.substr(0, end));
    all.append(line);
    if (end == text.size()) break;
    text.remove_prefix(end + 1);
  }
  return learnt(all, kinds);
}

TEST(PunktTrainer, LearnsWhatNltkDoes) {
  const std::map<std::string_view, CollocationKinds> kinds = {
      {"numbers", CollocationKinds::numbers},
      {"abbreviations", CollocationKinds::abbreviations},
      {"all", CollocationKinds::all}};
  LineReader reader({.inputs = {MT_TESTDATA "/punkt/trained.jsonl"}});
  JsonLineParser parser({"text", "kind", "abbreviations", "collocations", "starters", "contexts"});
  LineBlock block;
  int cases = 0;
  while (reader.next(block))
    for_each_line(block, [&](std::string_view line, std::int64_t number) {
      SCOPED_TRACE(number);
      ASSERT_EQ(parser.parse(line), "");
      const auto rows = [&](std::size_t key) {
        Rows sorted(parser.texts()[key].begin(), parser.texts()[key].end());
        std::ranges::sort(sorted);  // Python sorts by code points
        return sorted;
      };
      const Model expected = {rows(2), rows(3), rows(4), rows(5)};
      const std::string_view text = parser.texts()[0].front();
      const CollocationKinds kind = kinds.at(parser.texts()[1].front());
      PunktCounts counts;
      counts.add_text(text);
      const Model found = learnt(counts, kind);
      EXPECT_EQ(found.abbreviations, expected.abbreviations);
      EXPECT_EQ(found.collocations, expected.collocations);
      EXPECT_EQ(found.starters, expected.starters);
      std::vector<std::string> contexts = found.contexts;
      std::ranges::sort(contexts);
      EXPECT_EQ(contexts, expected.contexts);
      EXPECT_EQ(learnt_by_lines(text, kind), found);
      ++cases;
    });
  EXPECT_EQ(cases, 24);
}

TEST(PunktTrainer, MakesAModelThatSplits) {
  const Scratch folder;
  std::string lines;
  for (int i = 0; i < 20'000; ++i)  // several blocks
    lines += R"({"text":"Dr. Who met Dr. Jones. They had tea at no. )" + std::to_string(i) +
             R"( Baker Street."})"
             "\n";
  write_file_atomically(folder.path("in.jsonl"), lines, false);
  PunktOptions options;
  options.corpus.inputs = {folder.path("in.jsonl")};
  std::vector<std::string> contexts;
  for (const int workers : {1, 3}) {
    options.corpus.workers = workers;
    options.output_dir = folder.path("m" + std::to_string(workers));
    EXPECT_EQ(train_punkt_model(options, {}).words, 260'000);
    contexts.push_back(read_file(options.output_dir + "/ortho_context.tab"));
  }
  EXPECT_EQ(contexts[1], contexts[0]);
  const auto splitter =
      make_sentence_splitter({.split = true, .punkt_model = options.output_dir}, Log());
  std::vector<std::string_view> sentences;
  splitter->split("I saw Dr. Who. He left.", sentences);
  EXPECT_EQ(sentences, (std::vector<std::string_view>{"I saw Dr. Who.", "He left."}));
}

}  // namespace
}  // namespace mt
