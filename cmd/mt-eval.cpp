// mt-eval: measure a trained model.
#include <cstdio>

#include "base/command.h"
#include "base/progress.h"
#include "eval/perplexity.h"
#include "formats/load_model.h"
#include "infer/score_pass.h"
#include "model/config/model_config.h"
#include "text/put_in_front.h"

namespace {

struct Options {
  std::string load, task = "perplexity";
  std::vector<std::string> inputs;
  std::optional<std::int64_t> seq_length, overlapping_eval;
  std::int64_t micro_batch_size = 4;
  int threads = 0;
  bool json = false;
  mt::DeviceOptions compute{.dtype = ""};
  mt::TokenizerOptions tokenizer;

  void add_to(mt::CommandLine& cl) {
    cl.describe("Measure a trained model.");
    cl.first_run({"--load", "--task", "--seq-length", "--overlapping-eval", "--micro-batch-size",
                  "--device", "--json"});
    cl.positionals("INPUT", &inputs, "text, JSON lines, or the prefix of a token file; - is stdin",
                   1);
    cl.section("Model");
    cl.option("--load", &load, "PATH", mt::kLoadedModel);
    cl.required("--load");
    compute.add_to(cl, mt::kDtypeAsStored);
    tokenizer.add_to(cl);
    tokenizer.add_extra_ids_to(cl);
    cl.section("Evaluation");
    cl.option("--task", &task, "TASK", "what to measure", mt::one_of({"perplexity"}));
    cl.option("--seq-length", &seq_length, "N",
              "tokens of a window; default all that the model takes", mt::at_least(1));
    cl.option("--overlapping-eval", &overlapping_eval, "N",
              "tokens by which a window lies behind the one before; default --seq-length: the "
              "windows do not overlap",
              mt::at_least(1));
    cl.option(
        "--micro-batch-size", &micro_batch_size, "N",
        "windows at a time, of shorter texts more; changes no result, but by rounding on a GPU",
        mt::between(1, 65536));
    cl.option("--threads,-j", &threads, "N", "worker threads of the CPU; 0: one a core",
              mt::at_least(0));
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
      .member("words", score.words)
      .member("bytes", score.bytes)
      .end_object();
  print(json.text() + "\n");
}

void print_summary(const Options& options, const mt::LoadedModel& loaded,
                   const mt::Windows& windows, std::int64_t items, const mt::TextScore& score) {
  if (options.json) {
    mt::JsonWriter json;
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
    return print(json.text() + "\n");
  }
  char line[256];
  std::snprintf(line, sizeof line,
                "texts %lld  tokens %lld  bytes %lld  nats per token %.6f  perplexity %.4f  "
                "adjusted perplexity %.4f  bits per byte %.6f\n",
                static_cast<long long>(items), static_cast<long long>(score.tokens),
                static_cast<long long>(score.bytes), score.nats_per_token(), score.perplexity(),
                score.adjusted_perplexity(), score.bits_per_byte());
  print(line);
}

mt::Windows windows_of(const Options& options, const mt::ModelConfig& model) {
  const std::int64_t most = model.max_position_embeddings;
  const std::int64_t length = options.seq_length.value_or(most);
  if (length > most)
    mt::fail(mt::Exit::bad_config, "--seq-length ", length, ": the model takes at most ", most);
  const std::int64_t stride = options.overlapping_eval.value_or(length);
  if (stride > length)
    mt::fail(mt::Exit::bad_config, "--overlapping-eval ", stride,
             ": larger than the window; expected at most ", length);
  return {length, stride};
}

// How many tokens all inputs will have had, guessed from what has been read of them; 0 where one is
// no file.
class Extent {
 public:
  explicit Extent(const std::vector<std::string>& inputs) {
    for (const std::string& input : inputs) {
      const std::uint64_t bytes = mt::input_bytes(input);
      known_ = known_ && bytes > 0;
      all_ += bytes;
    }
  }
  std::uint64_t tokens_with(const mt::EvalText& text) {
    tokens_ += text.tokens.size();
    const std::uint64_t read = before_ + text.read;
    if (!known_ || read == 0) return 0;
    return static_cast<std::uint64_t>(static_cast<double>(tokens_) * static_cast<double>(all_) /
                                      static_cast<double>(read));
  }
  void end_input(const std::string& input) { before_ += mt::input_bytes(input); }

 private:
  bool known_ = true;
  std::uint64_t all_ = 0, before_ = 0, tokens_ = 0;
};

void run(mt::CommandLine& cl) {
  Options options;
  options.add_to(cl);
  cl.parse();
  options.compute.complete(true);
  options.compute.warn(cl.log());
  const mt::LoadedModel loaded =
      mt::load_model(options.load, options.tokenizer, options.compute,
                     {{mt::ModelFamily::gpt}, "with which no text is scored"});
  const mt::Windows windows = windows_of(options, loaded.model->config());
  mt::Progress progress(cl.log(), "scoring", "tokens", 0);
  mt::ScorePass model(*loaded.model, {.vocab_size = loaded.vocab_size(),
                                      .window = windows.length,
                                      .batch = options.micro_batch_size,
                                      .threads = options.threads,
                                      .scored = [&](auto tokens) {
                                        progress.add(static_cast<std::uint64_t>(tokens));
                                      }});
  mt::TextScore total;
  std::int64_t items = 0;
  mt::TextScorer scorer(
      loaded.tokenizer->eod(), mt::put_in_front(*loaded.tokenizer), windows,
      [&](auto ids, auto nll) { model.score(ids, nll); },
      [&](const mt::TextScore& score) {
        if (options.json) print_item(items, score);
        total += score;
        ++items;
      });
  try {
    Extent extent(options.inputs);
    for (const std::string& input : options.inputs) {
      mt::for_each_text(input, *loaded.tokenizer, loaded.vocab_size(),
                        [&](const mt::EvalText& text) {
                          progress.expect(extent.tokens_with(text));
                          scorer.add(text);
                        });
      extent.end_input(input);
    }
  } catch (const mt::Error&) {
    scorer.finish();  // what came before a line that is wrong
    throw;
  }
  scorer.finish();
  progress.finish();
  if (total.tokens == 0)
    mt::fail(mt::Exit::bad_data, options.inputs.front(), ": no tokens to score");
  print_summary(options, loaded, windows, items, total);
}

}  // namespace

int main(int argc, char** argv) { return mt::run_command("mt-eval", argc, argv, run); }
