#include "eval/guess_report.h"

#include <cstdio>

#include "base/error.h"

namespace mt {

JsonWriter GuessReport::begin() const {
  JsonWriter json;
  json.begin_object().member("schema", "mt-eval/1").member("task", task_);
  return json;
}

void GuessReport::put(const GuessScore& score) {
  if (json_) {
    JsonWriter json = begin();
    json.member("item", items_).member("nll", score.nll).member("tokens", score.tokens);
    print_(json.member("right", score.right).end_object().text() + "\n");
  }
  total_ += score;
  ++items_;
}

void GuessReport::finish(const std::string& input, const std::string& checkpoint,
                         std::int64_t seq_length) {
  if (total_.tokens == 0) fail(Exit::bad_data, input, ": no tokens to score");
  const bool pseudo = task_ == "pseudo-perplexity";
  if (json_) {
    JsonWriter json = begin();
    json.member("summary", true).member("checkpoint", checkpoint).member("seq_length", seq_length);
    json.member("items", items_).member("tokens", total_.tokens).member("right", total_.right);
    json.member("nats_per_token", total_.nats_per_token());
    json.member(pseudo ? "pseudo_perplexity" : "perplexity", total_.perplexity());
    return print_(json.member("accuracy", total_.accuracy()).end_object().text() + "\n");
  }
  char line[256];
  std::snprintf(
      line, sizeof line, "%s %lld  tokens %lld  nats per token %.6f  %s %.4f  accuracy %.6f\n",
      pseudo ? "texts" : "samples", static_cast<long long>(items_),
      static_cast<long long>(total_.tokens), total_.nats_per_token(),
      pseudo ? "pseudo-perplexity" : "perplexity", total_.perplexity(), total_.accuracy());
  print_(line);
}

}  // namespace mt
