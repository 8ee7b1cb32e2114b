#include <algorithm>
#include <cstdio>

#include "base/json.h"
#include "base/print.h"
#include "base/progress.h"
#include "eval/measures.h"
#include "eval/perplexity.h"
#include "infer/score_pass.h"
#include "model/config/model_config.h"
#include "text/put_in_front.h"

namespace mt {
namespace {

void print_item(std::int64_t item, const TextScore& score) {
  JsonWriter json;
  json.begin_object()
      .member("schema", "mt-eval/1")
      .member("task", "perplexity")
      .member("item", item)
      .member("nll", score.nll)
      .member("tokens", score.tokens)
      .member("words", score.words)
      .member("bytes", score.bytes)
      .end_object();
  print_now(json.text() + "\n");
}

void print_summary(const EvalOptions& options, const LoadedModel& loaded, const Windows& windows,
                   std::int64_t items, const TextScore& score) {
  if (options.json) {
    JsonWriter json;
    json.begin_object()
        .member("schema", "mt-eval/1")
        .member("task", "perplexity")
        .member("summary", true)
        .member("checkpoint", loaded.path)
        .member("seq_length", windows.length)
        .member("overlapping_eval", windows.stride)
        .member("items", items)
        .member("tokens", score.tokens)
        .member("words", score.words)
        .member("bytes", score.bytes)
        .member("nats_per_token", score.nats_per_token())
        .member("perplexity", score.perplexity())
        .member("token_ratio", score.token_ratio())
        .member("adjusted_perplexity", score.adjusted_perplexity())
        .member("bits_per_byte", score.bits_per_byte())
        .end_object();
    return print_now(json.text() + "\n");
  }
  char line[256];
  std::snprintf(line, sizeof line,
                "texts %lld  tokens %lld  bytes %lld  nats per token %.6f  perplexity %.4f  "
                "adjusted perplexity %.4f  bits per byte %.6f\n",
                static_cast<long long>(items), static_cast<long long>(score.tokens),
                static_cast<long long>(score.bytes), score.nats_per_token(), score.perplexity(),
                score.adjusted_perplexity(), score.bits_per_byte());
  print_now(line);
}

constexpr std::int64_t kWindowOfMamba = 2048;

Windows windows_of(const EvalOptions& options, const ModelConfig& model) {
  const std::int64_t most = model.max_position_embeddings;
  const bool endless = model.family == ModelFamily::mamba;  // it knows no positions
  const std::int64_t length =
      options.seq_length.value_or(endless ? std::min(most, kWindowOfMamba) : most);
  if (length > most)
    fail(Exit::bad_config, "--seq-length ", length, ": the model takes at most ", most);
  const std::int64_t stride = options.overlapping_eval.value_or(length);
  if (stride > length)
    fail(Exit::bad_config, "--overlapping-eval ", stride,
         ": larger than the window; expected at most ", length);
  return {length, stride};
}

// How many tokens all inputs will have had, guessed from what has been read of them; 0 where one is
// no file.
class Extent {
 public:
  explicit Extent(const std::vector<std::string>& inputs) {
    for (const std::string& input : inputs) {
      const std::uint64_t bytes = input_bytes(input);
      known_ = known_ && bytes > 0;
      all_ += bytes;
    }
  }
  std::uint64_t tokens_with(const EvalText& text) {
    tokens_ += text.tokens.size();
    const std::uint64_t read = before_ + text.read;
    if (!known_ || read == 0) return 0;
    return static_cast<std::uint64_t>(static_cast<double>(tokens_) * static_cast<double>(all_) /
                                      static_cast<double>(read));
  }
  void end_input(const std::string& input) { before_ += input_bytes(input); }

 private:
  bool known_ = true;
  std::uint64_t all_ = 0, before_ = 0, tokens_ = 0;
};

}  // namespace

void measure_perplexity(const EvalOptions& options, const LoadedModel& loaded, Progress& progress) {
  const Windows windows = windows_of(options, loaded.model->config());
  ScorePass model(*loaded.model, {.vocab_size = loaded.vocab_size(),
                                  .window = windows.length,
                                  .batch = options.micro_batch_size,
                                  .threads = options.threads,
                                  .scored = [&](auto tokens) {
                                    progress.add(static_cast<std::uint64_t>(tokens));
                                  }});
  TextScore total;
  std::int64_t items = 0;
  TextScorer scorer(
      loaded.tokenizer->eod(), put_in_front(*loaded.tokenizer), windows,
      [&](auto ids, auto nll) { model.score(ids, nll); },
      [&](const TextScore& score) {
        if (options.json) print_item(items, score);
        total += score;
        ++items;
      });
  try {
    Extent extent(options.inputs);
    for (const std::string& input : options.inputs) {
      for_each_text(input, *loaded.tokenizer, loaded.vocab_size(), [&](const EvalText& text) {
        progress.expect(extent.tokens_with(text));
        scorer.add(text);
      });
      extent.end_input(input);
    }
  } catch (const Error&) {
    scorer.finish();  // what came before a line that is wrong
    throw;
  }
  scorer.finish();
  progress.finish();
  if (total.tokens == 0) fail(Exit::bad_data, options.inputs.front(), ": no tokens to score");
  print_summary(options, loaded, windows, items, total);
}

}  // namespace mt
