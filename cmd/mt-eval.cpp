// mt-eval: measure a trained model.
#include <cstdio>

#include "base/command.h"
#include "eval/eval_input.h"
#include "eval/perplexity.h"
#include "infer/runner.h"
#include "model/loaded_gpt.h"

namespace {

struct Options {
  std::string load, task = "perplexity";
  std::vector<std::string> inputs;
  std::optional<std::int64_t> seq_length;
  int threads = 0;
  bool json = false;
  mt::TokenizerOptions tokenizer;

  void add_to(mt::CommandLine& cl) {
    cl.describe("Measure a trained model.");
    cl.positionals("INPUT", &inputs, "text, JSON lines, or the prefix of a token file; - is stdin",
                   1);
    cl.section("Model");
    cl.option("--load", &load, "DIR", "folder of checkpoints, or of one");
    cl.required("--load");
    tokenizer.add_to(cl);
    cl.section("Evaluation");
    cl.option("--task", &task, "TASK", "what to measure", mt::one_of({"perplexity"}));
    cl.option("--seq-length", &seq_length, "N",
              "tokens of a window; default all that the model takes", mt::at_least(1));
    cl.option("--threads,-j", &threads, "N", "worker threads; 0: one a core", mt::at_least(0));
    cl.flag("--json", &json, "one JSON object a text, the summary last");
  }
};

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void print_item(std::int64_t item, const mt::TextScore& score) {
  mt::JsonWriter json;
  json.begin_object()
      .member("schema", "mt-eval/1")
      .member("task", "perplexity")
      .member("item", item)
      .member("nll", score.nll)
      .member("tokens", score.tokens)
      .member("bytes", score.bytes)
      .end_object();
  print(json.text() + "\n");
}

void print_summary(const Options& options, const mt::LoadedGpt& gpt, std::int64_t items,
                   const mt::TextScore& score) {
  if (options.json) {
    mt::JsonWriter json;
    json.begin_object()
        .member("schema", "mt-eval/1")
        .member("task", "perplexity")
        .member("summary", true)
        .member("checkpoint", gpt.folder)
        .member("items", items)
        .member("tokens", score.tokens)
        .member("bytes", score.bytes)
        .member("nats_per_token", score.nats_per_token())
        .member("perplexity", score.perplexity())
        .member("bits_per_byte", score.bits_per_byte())
        .end_object();
    return print(json.text() + "\n");
  }
  char line[256];
  std::snprintf(line, sizeof line,
                "texts %lld  tokens %lld  bytes %lld  nats per token %.6f  perplexity %.4f  bits "
                "per byte %.6f\n",
                static_cast<long long>(items), static_cast<long long>(score.tokens),
                static_cast<long long>(score.bytes), score.nats_per_token(), score.perplexity(),
                score.bits_per_byte());
  print(line);
}

void run(mt::CommandLine& cl) {
  Options options;
  options.add_to(cl);
  cl.parse();
  const mt::LoadedGpt gpt = mt::load_gpt(options.load, options.tokenizer);
  mt::Runner runner(*gpt.model, options.threads);
  const std::int64_t window = options.seq_length.value_or(runner.max_tokens());
  if (window > runner.max_tokens())
    mt::fail(mt::Exit::bad_config, "--seq-length ", window, ": the model takes at most ",
             runner.max_tokens());
  mt::TextScore total;
  std::int64_t items = 0;
  for (const std::string& input : options.inputs)
    mt::for_each_text(input, *gpt.tokenizer, [&](const mt::EvalText& text) {
      const mt::TextScore score =
          mt::score_text(text.tokens, text.bytes, gpt.tokenizer->eod(), window,
                         [&](auto ids, auto nll) { runner.score(ids, nll); });
      if (options.json) print_item(items, score);
      total += score;
      ++items;
    });
  if (total.tokens == 0)
    mt::fail(mt::Exit::bad_data, options.inputs.front(), ": no tokens to score");
  print_summary(options, gpt, items, total);
}

}  // namespace

int main(int argc, char** argv) { return mt::run_command("mt-eval", argc, argv, run); }
