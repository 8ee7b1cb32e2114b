// Which tokens are scored of a request, and what a run makes of the scores.
#include "eval/tasks/task_run.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "eval/tasks/task_results.h"
#include "text/unicode/utf8_stream.h"

namespace mt {
namespace {

using Ids = std::vector<std::int32_t>;

// Bytes are tokens, but " a" is one, 128; 129 begins every text of a kind that has it, and 130 ends
// one.
class Bytes : public Tokenizer {
 public:
  explicit Bytes(bool begins) : begins_(begins) {}
  void encode(std::string_view text, Ids& ids) const override {
    if (begins_) ids.push_back(129);
    for (std::size_t i = 0; i < text.size(); ++i) {
      const bool both = text.substr(i, 2) == " a";
      ids.push_back(both ? 128 : text[i]);
      i += both;
    }
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    for (const std::int32_t id : ids)
      text += id < 128 ? std::string(1, static_cast<char>(id)) : id == 128 ? " a" : "<>";
    return text;
  }
  std::unique_ptr<StreamDecoder> stream_decoder() const override { return nullptr; }
  std::int32_t vocab_size() const override { return 131; }
  std::int32_t eod() const override { return 130; }
  std::int32_t bos() const override { return begins_ ? 129 : -1; }
  std::string_view type() const override { return "Bytes"; }
  const std::string& identity() const override { return identity_; }

 private:
  bool begins_;
  std::string identity_ = "bytes";
};

void expect_tokens(bool begins, const EvalRequest& request, const Ids& ids, std::size_t scored,
                   std::int64_t most = 100) {
  const ScoredTokens tokens = tokens_of(Bytes(begins), request, most);
  EXPECT_EQ(tokens.ids, ids) << request.context << '|' << request.continuation;
  EXPECT_EQ(tokens.scored, scored) << request.context << '|' << request.continuation;
}

TEST(TaskRun, TokensOfAPair) {
  expect_tokens(false, {"xy", " a"}, {'x', 'y', 128}, 1);
  expect_tokens(false, {"x \n", "a"}, {'x', ' ', '\n', 'a'}, 3);  // white space is moved
  expect_tokens(false, {"x ", "a"}, {'x', 128}, 1);
  expect_tokens(true, {"x", " a"}, {129, 'x', 128}, 1);
  expect_tokens(true, {"<>x", "y"}, {'<', '>', 'x', 'y'}, 1);  // it begins with BOS as it is
  expect_tokens(false, {"", "ab"}, {130, 'a', 'b'}, 2);
  expect_tokens(true, {"", "ab"}, {129, 'a', 'b'}, 2);
  expect_tokens(false, {" ", "b"}, {130, ' ', 'b'}, 2);
  expect_tokens(false, {"vwxy", "z"}, {'w', 'x', 'y', 'z'}, 1, 3);  // the last ones are kept
  expect_tokens(false, {"x", ""}, {'x'}, 0);
}

TEST(TaskRun, WindowsOfAText) {
  const auto windows = [](int count, std::int64_t most) {
    std::string text;
    for (int i = 1; i <= count; ++i) text += static_cast<char>(i);
    std::vector<std::pair<Ids, Ids>> all;  // context, predicted
    for (const ScoredTokens& w : rolling_tokens_of(Bytes(false), text, most)) {
      const auto cut = w.ids.end() - static_cast<std::ptrdiff_t>(w.scored);
      all.push_back({{w.ids.begin(), cut}, {cut, w.ids.end()}});
    }
    return all;
  };
  using All = std::vector<std::pair<Ids, Ids>>;
  EXPECT_EQ(windows(10, 4),
            (All{{{130}, {1, 2, 3, 4}}, {{4}, {5, 6, 7, 8}}, {{6, 7, 8}, {9, 10}}}));
  EXPECT_EQ(windows(5, 4), (All{{{130}, {1, 2, 3, 4}}, {{1, 2, 3, 4}, {5}}}));
  EXPECT_EQ(windows(3, 4), (All{{{130}, {1, 2, 3}}}));
  EXPECT_EQ(windows(0, 4), All{});
}

constexpr const char* kTask =
    "task: t\noutput_type: multiple_choice\ndoc_to_text: q\ndoc_to_choice: [\"x\", \"yy\"]\n"
    "doc_to_target: a\n";

// A model to which every token costs its id / 100, and of which odd ones are the likeliest.
EvalModel model_of(const Tokenizer& tokenizer, std::size_t* calls) {
  EvalModel model{.tokenizer = tokenizer, .vocab_size = 131, .max_length = 20};
  model.score = [calls](auto ids, auto nll, auto likeliest) {
    ++*calls;
    for (std::size_t i = 0; i < ids.size(); ++i)
      for (std::size_t j = 0; j < nll[i].size(); ++j) {
        const std::int32_t id = ids[i][ids[i].size() - nll[i].size() + j];
        nll[i][j] = id / 100.0;
        if (!likeliest.empty()) likeliest[i][j] = id % 2;
      }
  };
  return model;
}

EvalDocs docs_of(int count) {
  EvalDocs docs;
  for (int i = 0; i < count; ++i) {
    docs.docs.push_back(chat_value_of_json("{\"q\":\"ab" + std::to_string(i) + "\",\"a\":0}", "d"));
    docs.places.push_back("d:" + std::to_string(i + 1));
  }
  return docs;
}

TEST(TaskRun, LinesAndResults) {
  const EvalTask task = read_eval_task(kTask, "t");
  const Bytes tokenizer(false);
  std::size_t calls = 0;
  TaskPrompts prompts(task, {}, "pool", {});
  TaskScores scores(task), again(task);
  std::string lines;
  run_task(
      task, docs_of(3), 0, prompts, model_of(tokenizer, &calls), [](const EvalItem&) { FAIL(); },
      [&](const EvalAnswer& answer) {
        lines += scores.add(answer, answer.item.id == 0);
        again.add_line(std::string_view(lines).substr(lines.rfind('\n', lines.size() - 2) + 1),
                       "l");
      });
  EXPECT_EQ(calls, 1U);
  EXPECT_EQ(
      lines.substr(0, lines.find('\n')),
      R"({"schema":"mt-eval/1","task":"t","doc_id":0,"doc":{"q": "ab0", "a": 0},"target":0,)"
      R"("arguments":[["ab0"," x"],["ab0"," yy"]],)"
      R"("resps":[[[-1.52,false]],[[-2.74,false]]],)"
      R"("filtered_resps":[[-1.52,false],[-2.74,false]],"filter":"none",)"
      R"("metrics":["acc","acc_norm"],)"
      R"("doc_hash":"b3eaa659cb65ca307dad6d5b782336f912e6120909780079cf9d16bc7a43a472","prompt_hash":"498867a250a343479dddb42d5e86fcb243d037162d10d31e266ca5d3525015ee","target_hash":"5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9",)"
      R"("acc":1.0,"acc_norm":0.0,)"
      R"("ids":[[97,98,48,32,120],[97,98,48,32,121,121]],"cont_start":[3,3],)"
      R"("token_logprobs":[[-0.32,-1.2],[-0.32,-1.21,-1.21]]})");
  ASSERT_EQ(scores.results(0).size(), 2U);
  EXPECT_EQ(scores.results(0)[0].value, 1);
  EXPECT_EQ(again.results(0)[1].value, scores.results(0)[1].value);
  EXPECT_EQ(again.documents(), 3);
  EXPECT_THROW(again.add_line(lines.substr(0, lines.find('\n')), "l"), Error);
}

TEST(TaskRun, RefusesWhatHasNoRoom) {
  const EvalTask task = read_eval_task(kTask, "t");
  const Bytes tokenizer(false);
  std::size_t calls = 0;
  EvalModel model = model_of(tokenizer, &calls);
  model.max_length = 2;
  TaskPrompts prompts(task, {}, "pool", {});
  try {
    run_task(
        task, docs_of(1), 0, prompts, model, [](const EvalItem&) {}, [](const EvalAnswer&) {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "d:1: 3 tokens are to follow; the model takes at most 2");
  }
}

TEST(TaskRun, TableOfAGroup) {
  EvalResults results;
  const TaskScores::Result acc{.metric = "acc", .filter = "none", .value = 0.5, .error = 0.1};
  results.add({.name = "a",
               .alias = "a",
               .version = "1.0",
               .original = 10,
               .effective = 10,
               .depth = 1,
               .results = {acc}});
  results.add({.name = "b",
               .alias = "b",
               .version = "1.0",
               .original = 30,
               .effective = 30,
               .depth = 1,
               .results = {acc}});
  results.add_group({.name = "g", .alias = "G", .members = {"a", "b"}}, 0, 0);
  EXPECT_EQ(results.table(),
            "|Tasks|Version|Filter|n-shot|Metric| |Value | |Stderr|\n"
            "|-----|------:|------|-----:|------|-|-----:|-|-----:|\n"
            "|G    |       |none  |      |acc   |↑|0.5000|±|0.0795|\n"
            "| - a |    1.0|none  |     0|acc   |↑|0.5000|±|0.1000|\n"
            "| - b |    1.0|none  |     0|acc   |↑|0.5000|±|0.1000|\n");
}

}  // namespace
}  // namespace mt
