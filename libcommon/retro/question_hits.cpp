#include "retro/question_hits.h"

#include <algorithm>
#include <charconv>
#include <iomanip>
#include <numeric>
#include <optional>
#include <ostream>
#include <unordered_map>

#include "base/command.h"
#include "base/error.h"
#include "base/flag_list.h"
#include "base/input/line_reader.h"
#include "base/input/separated.h"
#include "base/json.h"
#include "base/threads.h"
#include "infer/tower_embedder.h"
#include "retro/answer_match.h"
#include "retro/block_data.h"
#include "retro/evidence.h"
#include "search/vector_index.h"
#include "text/bert/tower_text.h"

namespace mt {

void QuestionHitsOptions::add_to(CommandLine& cl) {
  cl.section("Questions and evidence");
  cl.option("--qa-data-dev", &dev, "FILE",
            "questions: tab-separated, with their answers as a list of Python's");
  cl.option("--qa-data-test", &test, "FILE", "others, likewise");
  cl.option("--evidence-data-path", &evidence, "FILE",
            "passages: tab-separated id, text and title behind a line that names them");
  cl.required("--evidence-data-path");
  cl.option(
      "--embedding-path", &embeddings, "FILE",
      "their vectors, as mt-retro-index embed --ict-load makes them: Megatron-LM's BlockData");
  cl.required("--embedding-path");
  cl.option("--faiss-topk-retrievals", &count, "N", "passages that are retrieved for a question",
            between(1, 1 << 20));
  cl.option("--faiss-match", &match, "HOW",
            "how an answer is looked for in a passage: its words (string), or as an expression "
            "(regex)",
            one_of({"string", "regex"}));
  cl.option("--retriever-report-topk-accuracies", &tops, "K",
            "of which the share of questions with an answer among the first K is told");
  cl.flag("--json", &json, "print a line of JSON for each set");
  towers.add_to(cl);
  imply(cl, "what is retrieved is counted alike for both",
        {{"--task", each({"RETRIEVER-EVAL", "ICT-ZEROSHOT-NQ"})}});
  imply(cl, "all passages are compared exactly, wherever that is done", {{"--faiss-use-gpu"}});
  imply(cl, "a factor of all scores changes no order", {{"--retriever-score-scaling"}});
  imply(cl, "questions are few", {{"--indexer-log-interval", any(kInteger)}});
}

void QuestionHitsOptions::check() const {
  if (dev.empty() && test.empty()) fail(Exit::usage, "--qa-data-dev or --qa-data-test: required");
  for (const std::int64_t top : tops)
    if (top < 1 || top > count)
      fail(Exit::usage, "--retriever-report-topk-accuracies ", top,
           ": expected from 1 to --faiss-topk-retrievals, ", count);
}

namespace {

struct Question {
  std::string text;
  AnswerMatch answers;
};

struct QuestionSet {
  const char* name;  // "DEV"
  std::string path;
  std::vector<Question> questions = {};
  std::vector<std::int64_t> found = {};  // [questions, count]: ids of passages, nearest first
  std::int64_t count = 0;                // of each
};

Question question_of(std::string_view line, const std::string& place, bool as_regex) {
  bool open = false;
  const std::vector<std::string> fields = separated_fields(line, '\t', true, &open);
  if (open || fields.size() < 2)
    fail(Exit::bad_data, place, ": expected a question and a list of answers, tab-separated");
  const std::vector<std::string> answers = python_texts(fields[1], place);
  if (answers.empty()) fail(Exit::bad_data, place, ": has no answers");
  try {
    return {fields[0], AnswerMatch(answers, as_regex)};
  } catch (const Error& error) {
    fail(Exit::bad_data, place, ": ", error.what());
  }
}

void read_questions(QuestionSet& set, bool as_regex) {
  LineReader reader({.inputs = expand_inputs({set.path})});
  LineBlock block;
  while (reader.next(block))
    for_each_line(block, [&](std::string_view line, std::int64_t number) {
      set.questions.push_back(question_of(line, concat(set.path, ":", number), as_regex));
    });
  if (set.questions.empty()) fail(Exit::bad_data, set.path, ": has no questions");
}

// The passages whose vectors have the largest products with the questions'.
void retrieve(std::span<QuestionSet> sets, const QuestionHitsOptions& options,
              const RunContext& context) {
  const TowerUseOptions& o = options.towers;
  BlockData blocks = read_block_data(options.embeddings);
  FlatIndex index{.columns = blocks.columns, .inner = true, .vectors = std::move(blocks.vectors)};
  const LoadedModel loaded = o.load_towers();
  TowerEmbedder embedder(loaded, {.batch = o.batch, .threads = o.threads});
  if (o.length > embedder.max_tokens())
    fail(Exit::bad_config, "--retriever-seq-length ", o.length, ": ", loaded.path,
         " takes at most ", embedder.max_tokens(), " tokens");
  if (embedder.columns() != index.columns)
    fail(Exit::bad_config, options.embeddings, ": vectors of ", index.columns, " numbers, but ",
         loaded.path, " makes such of ", embedder.columns());
  const TowerText words(*loaded.tokenizer, o.length);
  Products products(o.threads, [&] { context.checkpoint(); });
  for (QuestionSet& set : sets) {
    std::vector<std::vector<std::int32_t>> texts;
    for (std::size_t i = 0; i < set.questions.size(); ++i)
      texts.push_back(
          embedder.checked(words.question(set.questions[i].text), concat(set.path, ":", i + 1)));
    set.count = std::min(options.count, std::ssize(blocks.ids));
    const FoundVectors nearest = index.search(embedder.embed(texts), set.count, products);
    for (const std::int64_t row : nearest.ids)
      set.found.push_back(blocks.ids[static_cast<std::size_t>(row)]);
  }
}

using PassageTexts = std::unordered_map<std::int64_t, std::optional<std::string>>;  // by ids

// The texts of the passages that were found for any question: each has one.
PassageTexts texts_of(std::span<const QuestionSet> sets, const std::string& evidence,
                      const RunContext& context) {
  PassageTexts texts;
  for (const QuestionSet& set : sets)
    for (const std::int64_t id : set.found) texts.emplace(id, std::nullopt);
  for_passages(
      evidence, 4096, [&] { context.checkpoint(); },
      [&](std::span<const Passage> passages) {
        for (const Passage& passage : passages)
          if (const auto at = texts.find(passage.id); at != texts.end()) {
            if (at->second)
              fail(Exit::bad_data, evidence, ": passage ", passage.id, " is there twice");
            at->second = passage.text;
          }
      });
  if (const auto missing = std::ranges::count_if(
          texts, [](const auto& passage) { return !passage.second.has_value(); });
      missing > 0)
    fail(Exit::bad_data, evidence, ": ", missing,
         " of the passages that were retrieved are not there");
  return texts;
}

// How many questions have an answer among the first 1, 2, ... passages.
std::vector<std::int64_t> hits_of(const QuestionSet& set, const PassageTexts& texts,
                                  std::int64_t count, Workers& workers) {
  std::vector<std::int64_t> first(set.questions.size());  // passage that has one
  workers.run([&] {
    parallel_for_ordered_errors(std::ssize(set.questions), [&](std::int64_t i) {
      std::int64_t& at = first[static_cast<std::size_t>(i)];
      while (at < set.count && !set.questions[static_cast<std::size_t>(i)].answers(*texts.at(
                                   set.found[static_cast<std::size_t>(i * set.count + at)])))
        ++at;
    });
  });
  std::vector<std::int64_t> hits(static_cast<std::size_t>(count));
  for (const std::int64_t at : first)
    if (at < set.count) ++hits[static_cast<std::size_t>(at)];
  std::partial_sum(hits.begin(), hits.end(), hits.begin());
  return hits;
}

void print(const QuestionSet& set, std::span<const std::int64_t> hits,
           const QuestionHitsOptions& options, std::ostream& out) {
  const auto questions = static_cast<double>(set.questions.size());
  const auto share = [&](std::int64_t n) { return static_cast<double>(n) / questions; };
  if (options.json) {
    JsonWriter json;
    json.begin_object().member("schema", "mt-retrieval/1").member("set", set.name);
    json.member("questions", std::ssize(set.questions)).key("hits").begin_array();
    for (const std::int64_t n : hits) json.value(n);
    json.end_array().key("top").begin_object();
    for (const std::int64_t k : options.tops)
      json.member(std::to_string(k), 100 * share(hits[static_cast<std::size_t>(k - 1)]));
    out << json.end_object().end_object().text() << '\n';
    return;
  }
  std::string counts, shares;
  for (const std::int64_t n : hits) {
    counts += concat(counts.empty() ? "" : ", ", n);
    shares += concat(shares.empty() ? "" : ", ", python_share(share(n)));
  }
  out << set.name << " SET RESULTS\ntopk-" << options.count << " documents hits [" << counts
      << "]\ntop-k documents hits accuracy [" << shares << "]\n";
  for (const std::int64_t k : options.tops)
    out << "top-" << k << ": " << std::fixed << std::setprecision(2)
        << 100 * share(hits[static_cast<std::size_t>(k - 1)]) << '\n';
}

}  // namespace

std::string python_share(double x) {
  char text[64];
  const auto format =
      x == 0 || x >= 1e-4 ? std::chars_format::fixed : std::chars_format::scientific;
  std::string digits(text, std::to_chars(std::begin(text), std::end(text), x, format).ptr);
  return digits.find_first_of(".e") == std::string::npos ? digits + ".0" : digits;
}

void question_hits(const QuestionHitsOptions& options, const RunContext& context,
                   std::ostream& out) {
  std::vector<QuestionSet> sets;
  for (const auto& [name, path] : {std::pair{"DEV", &options.dev}, {"TEST", &options.test}})
    if (!path->empty())
      read_questions(sets.emplace_back(QuestionSet{name, *path}), options.match == "regex");
  retrieve(sets, options, context);
  const auto texts = texts_of(sets, options.evidence, context);
  Workers workers(options.towers.threads);
  for (const QuestionSet& set : sets)
    print(set, hits_of(set, texts, options.count, workers), options, out);
}

}  // namespace mt
