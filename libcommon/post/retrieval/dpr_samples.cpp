#include "post/retrieval/dpr_samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "data/samples/ict_samples.h"
#include "data/samples/numpy_random.h"

namespace mt {
namespace {

void fill_question(const Fields& sample, const TowerText& words, const DprQuestion& question,
                   std::span<const DprPassage* const> passages) {
  const std::vector<std::int32_t> query = words.question(question.question);
  std::vector<std::vector<std::int32_t>> contexts;
  for (const DprPassage* passage : passages)
    contexts.push_back(words.passage(passage->title, passage->text));
  const std::vector<std::span<const std::int32_t>> spans(contexts.begin(), contexts.end());
  fill_query(sample, query, spans, words.padding());
}

std::vector<std::string> lines_of(const std::string& name, const DprQuestion& question,
                                  std::span<const DprPassage* const> passages) {
  std::vector<std::string> lines = {name, concat("question: ", question.question)};
  for (std::size_t i = 0; i < passages.size(); ++i)
    lines.push_back(
        concat(i == 0 ? "own: " : "other: ", passages[i]->title, " | ", passages[i]->text));
  return lines;
}

void write_question(const std::string& name, const DprQuestion& question,
                    std::span<const DprPassage* const> passages, JsonWriter& json) {
  json.member("set", name).member("question", question.question).key("passages").begin_array();
  for (const DprPassage* passage : passages)
    json.begin_object().member("title", passage->title).member("text", passage->text).end_object();
  json.end_array();
}

// As random.shuffle() has it: from the end, with one of those not yet drawn.
std::vector<const DprPassage*> shuffled(const std::vector<DprPassage>& passages,
                                        RandomState& random) {
  std::vector<const DprPassage*> order;
  for (const DprPassage& passage : passages) order.push_back(&passage);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1],
              order[static_cast<std::size_t>(random.randint(0, static_cast<std::int64_t>(i)))]);
  return order;
}

}  // namespace

// --- To learn from ------------------------------------------------------------------------------

DprSamples::DprSamples(std::string name, std::vector<DprQuestion> questions,
                       const Tokenizer& tokenizer, const Options& options)
    : name_(std::move(name)),
      questions_(std::move(questions)),
      words_(tokenizer, options.seq_length),
      options_(options),
      fields_(query_fields(options.seq_length, 1 + options.negatives)),
      order_(*this, options.order) {}

const DprQuestion& DprSamples::question(std::int64_t n) const {
  return questions_[static_cast<std::size_t>(order_.sequence(n).value_or(0))];
}

std::vector<const DprPassage*> DprSamples::passages(std::int64_t n, const DprQuestion& of) const {
  std::vector<const DprPassage*> all = {&of.own};
  if (options_.negatives == 0) return all;
  RandomState random(options_.seed + static_cast<std::uint32_t>(n));
  for (const auto* passages : {&of.hard, &of.others})
    for (const DprPassage* passage : shuffled(*passages, random))
      if (std::ssize(all) <= options_.negatives) all.push_back(passage);
  return all;
}

void DprSamples::get(std::int64_t n, const Fields& sample) const {
  const DprQuestion& of = question(n);
  fill_question(sample, words_, of, passages(n, of));
}

std::vector<std::string> DprSamples::lines(std::int64_t n, const Tokenizer&) const {
  return lines_of(name_, question(n), passages(n, question(n)));
}

void DprSamples::write(std::int64_t n, const Tokenizer&, JsonWriter& json) const {
  write_question(name_, question(n), passages(n, question(n)), json);
}

// --- To be judged by ----------------------------------------------------------------------------

JudgedSamples::JudgedSamples(std::string name, std::vector<DprQuestion> questions,
                             const Tokenizer& tokenizer, const Options& options)
    : name_(std::move(name)),
      questions_(std::move(questions)),
      words_(tokenizer, options.seq_length),
      options_(options),
      fields_(query_fields(options.seq_length, options.contexts)) {
  for (std::size_t i = 0; i < questions_.size(); ++i) {
    const std::int64_t all = std::ssize(passages(questions_[i]));
    for (std::int64_t begin = 0; begin < all; begin += options_.contexts)
      parts_.push_back(
          {static_cast<std::int64_t>(i), begin, std::min(all, begin + options_.contexts)});
  }
}

std::vector<const DprPassage*> JudgedSamples::passages(const DprQuestion& question) const {
  std::vector<const DprPassage*> all = {&question.own};
  const auto add = [&](const std::vector<DprPassage>& passages, std::int64_t most) {
    for (std::int64_t i = 0; i < std::min(most, std::ssize(passages)); ++i)
      all.push_back(&passages[static_cast<std::size_t>(i)]);
  };
  add(question.others, options_.others);
  add(question.hard, options_.hard);
  return all;
}

// What there are too few of for a sample is the first again.
void JudgedSamples::get(std::int64_t k, const Fields& sample) const {
  const Part& part = parts_[static_cast<std::size_t>(k)];
  const DprQuestion& of = questions_[static_cast<std::size_t>(part.question)];
  const std::vector<const DprPassage*> all = passages(of);
  std::vector<const DprPassage*> some(all.begin() + part.begin, all.begin() + part.end);
  some.resize(static_cast<std::size_t>(options_.contexts), all.front());
  fill_question(sample, words_, of, some);
}

std::vector<std::string> JudgedSamples::lines(std::int64_t k, const Tokenizer&) const {
  const DprQuestion& of =
      questions_[static_cast<std::size_t>(parts_[static_cast<std::size_t>(k)].question)];
  return lines_of(name_, of, passages(of));
}

void JudgedSamples::write(std::int64_t k, const Tokenizer&, JsonWriter& json) const {
  const DprQuestion& of =
      questions_[static_cast<std::size_t>(parts_[static_cast<std::size_t>(k)].question)];
  write_question(name_, of, passages(of), json);
}

JudgedSamples::Ranks JudgedSamples::ranks(std::span<const double> vectors, std::int64_t width,
                                          std::int64_t group,
                                          std::span<const std::int64_t> tops) const {
  Ranks ranks{.questions = std::ssize(questions_), .tops = std::vector<double>(tops.size())};
  const auto vector = [&](std::size_t part, std::int64_t row) {
    return vectors.subspan(
        (part * static_cast<std::size_t>(1 + options_.contexts) + static_cast<std::size_t>(row)) *
            static_cast<std::size_t>(width),
        static_cast<std::size_t>(width));
  };
  const auto score = [&](std::span<const double> a, std::span<const double> b) {
    const double product = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    if (!std::isfinite(product))
      fail(Exit::bad_data, name_, ": the products of the model's vectors are not numbers");
    return product;
  };
  for (std::size_t first = 0; first < parts_.size();) {
    const std::int64_t begin = parts_[first].question;
    std::size_t last = first;
    while (last < parts_.size() && parts_[last].question < begin + group) ++last;
    for (std::size_t i = first; i < last; ++i) {
      if (parts_[i].begin > 0) continue;  // a question's first part, with its own passage
      const auto query = vector(i, 0);
      const double own = score(query, vector(i, 1));
      std::int64_t before = 0;
      for (std::size_t j = first; j < last; ++j)
        for (std::int64_t c = 0; c < parts_[j].end - parts_[j].begin; ++c)
          before += score(query, vector(j, 1 + c)) > own;
      ranks.rank += static_cast<double>(before);
      for (std::size_t k = 0; k < tops.size(); ++k) ranks.tops[k] += before < tops[k] ? 100 : 0;
    }
    first = last;
  }
  const auto questions = static_cast<double>(ranks.questions);
  ranks.rank /= questions;
  for (double& top : ranks.tops) top /= questions;
  return ranks;
}

}  // namespace mt
