#include "formats/quantization_cost.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/threads.h"
#include "formats/calibration.h"
#include "formats/smoothing.h"
#include "model/config/model_config.h"
#include "model/model_table.h"

namespace mt {
namespace {

double log_sum(std::span<const float> logits) {
  const float most = std::ranges::max(logits);
  double sum = 0;
  for (const float x : logits) sum += std::exp(double{x} - most);
  return most + std::log(sum);
}

// What both models say of a token, or sums of that over all tokens.
struct Said {
  double loss_before = 0, loss = 0, divergence = 0, same = 0;

  Said& operator+=(const Said& other) {
    loss_before += other.loss_before;
    loss += other.loss;
    divergence += other.divergence;
    same += other.same;
    return *this;
  }
};

Said compare(std::span<const float> before, std::span<const float> after, std::int32_t token) {
  const double sum_before = log_sum(before), sum = log_sum(after);
  Said said{.loss_before = sum_before - before[static_cast<std::size_t>(token)],
            .loss = sum - after[static_cast<std::size_t>(token)]};
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double p = before[i] - sum_before;
    said.divergence += std::exp(p) * (p - (after[i] - sum));
  }
  said.same = std::ranges::max_element(before) - before.begin() ==
              std::ranges::max_element(after) - after.begin();
  return said;
}

// The squares of X W^T and of X (W - W')^T.
double error_of(const std::vector<float>& before, const std::vector<float>& after,
                std::int64_t rows, const LayerInputs& inputs) {
  const auto in = static_cast<std::int64_t>(inputs.sums.size());
  std::vector<double> made(static_cast<std::size_t>(rows)), off(made.size());
  parallel_for(rows, [&](std::int64_t row) {
    std::vector<float> of_row(LayerInputs::kMostKept), off_row(of_row.size());
    for (std::int64_t c = 0; c < in; ++c) {
      const auto at = static_cast<std::size_t>(row * in + c);
      const float w = before[at], difference = w - after[at];
      const float* const x = &inputs.some[static_cast<std::size_t>(c * LayerInputs::kMostKept)];
      for (std::size_t i = 0; i < of_row.size(); ++i) {
        of_row[i] += w * x[i];
        off_row[i] += difference * x[i];
      }
    }
    for (std::size_t i = 0; i < of_row.size(); ++i) {
      made[static_cast<std::size_t>(row)] += double{of_row[i]} * of_row[i];
      off[static_cast<std::size_t>(row)] += double{off_row[i]} * off_row[i];
    }
  });
  double all = 0, all_off = 0;
  for (std::size_t i = 0; i < made.size(); ++i) all += made[i], all_off += off[i];
  return all > 0 ? std::sqrt(all_off / all) : 0;
}

}  // namespace

TextSequences read_cost_text(const ModelSource& before, const TextOptions& options) {
  if (before.config().family != ModelFamily::gpt)
    fail(Exit::bad_config, "--cost-text: ", before.path(),
         " is no GPT, which guesses what follows");
  TextSequences text = read_sequences(before, options, "--cost-text");
  if (text.length < 2)
    fail(Exit::bad_config, "--cost-text: a sequence of ", text.length,
         " token guesses none; see --calib-seq");
  return text;
}

QuantizationCost quantization_cost(const ModelSource& before, const ModelSource& after,
                                   const TextSequences& text, const TextOptions& options,
                                   const Log& log) {
  log.note(concat("--cost-text: ", text.count, " sequences of ", text.length,
                  " tokens are read with the weights as they were and as they are"));
  const auto vocabulary = static_cast<std::size_t>(before.config().vocab_size);
  const std::int64_t guessed = text.length - 1;
  Calibration calibration(before.path(), text.count, true);
  TextReader first(before, options, &calibration, 2), second(after, options);
  Said all;
  for (std::int64_t i = 0; i < text.count; ++i) {
    const auto ids = text.at(i);
    const auto a = first.read(ids, text.length), b = second.read(ids, text.length);
    std::vector<Said> said(static_cast<std::size_t>(guessed));
    parallel_for(guessed, [&](std::int64_t t) {
      const auto at = static_cast<std::size_t>(t);
      said[at] = compare(a.subspan(at * vocabulary, vocabulary),
                         b.subspan(at * vocabulary, vocabulary), ids[at + 1]);
    });
    for (const Said& one : said) all += one;
  }
  QuantizationCost cost{.tokens = text.count * guessed};
  const auto tokens = static_cast<double>(cost.tokens);
  cost.perplexity_before = std::exp(all.loss_before / tokens);
  cost.perplexity = std::exp(all.loss / tokens);
  cost.divergence = all.divergence / tokens;
  cost.same_likeliest = all.same / tokens;
  const ParamTable rows = model_rows(before.config());
  for (const Param& row : rows.rows())
    if (const LayerInputs* const inputs = calibration.find(row);
        inputs != nullptr && row.shape.rank() == 2)
      cost.layers.push_back({.name = row.name(),
                             .error = error_of(matrix_of(before, row), matrix_of(after, row),
                                               row.shape[0], *inputs)});
  return cost;
}

void QuantizationCost::write(JsonWriter& json) const {
  json.begin_object()
      .member("tokens", tokens)
      .member("perplexity_before", perplexity_before)
      .member("perplexity", perplexity)
      .member("divergence", divergence)
      .member("same_likeliest", same_likeliest)
      .key("layers")
      .begin_array();
  for (const Layer& layer : layers)
    json.begin_object().member("name", layer.name).member("error", layer.error).end_object();
  json.end_array().end_object();
}

std::string QuantizationCost::text() const {
  char line[160];
  std::snprintf(line, sizeof line,
                "perplexity %.4f, before %.4f (%+.3f %%), of %lld tokens\n"
                "divergence %.6f nats a token; the likeliest token is the same for %.2f %%\n",
                perplexity, perplexity_before, (perplexity / perplexity_before - 1) * 100,
                static_cast<long long>(tokens), divergence, same_likeliest * 100);
  std::string all = line;
  for (const Layer& layer : layers) {
    std::snprintf(line, sizeof line, "error %.5f  ", layer.error);
    all += concat(line, layer.name, '\n');
  }
  return all;
}

}  // namespace mt
