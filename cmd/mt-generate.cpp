// mt-generate: continue prompts with a trained model.
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "base/command.h"
#include "infer/generator.h"
#include "model/loaded_gpt.h"

namespace {

struct Options {
  std::string load;
  std::vector<std::string> prompts;
  std::int64_t num_tokens = 64;
  int threads = 0;
  bool json = false;
  mt::TokenizerOptions tokenizer;
  mt::SamplingOptions sampling;

  void add_to(mt::CommandLine& cl) {
    cl.describe("Continue prompts with a trained model.",
                "Prompts are arguments or, without any, the lines of stdin.  Each completion goes "
                "to stdout "
                "as it is made, followed by a newline, in the order of the prompts.");
    cl.positionals("PROMPT", &prompts, "text to continue; none, or - alone: lines of stdin", 0);
    cl.section("Model");
    cl.option("--load", &load, "DIR", "folder of checkpoints, or of one");
    cl.required("--load");
    tokenizer.add_to(cl);
    cl.section("Output");
    cl.option("--num-tokens", &num_tokens, "N", "tokens to add at most", mt::at_least(0));
    cl.flag("--json", &json, "one JSON object a line instead of text");
    cl.option("--threads,-j", &threads, "N", "worker threads; 0: one a core", mt::at_least(0));
    sampling.add_to(cl);
  }
};

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    mt::fail_errno("stdout", "cannot write", mt::Exit::io_error);
}

class Completer {
 public:
  Completer(const Options& options, const mt::LoadedGpt& gpt)
      : options_(options),
        tokenizer_(*gpt.tokenizer),
        runner_(*gpt.model, options.threads),
        generator_(runner_, options.sampling, tokenizer_.vocab_size(), tokenizer_.eod()) {}

  void complete(const std::string& prompt) {
    std::vector<std::int32_t> ids{tokenizer_.eod()};  // a document's beginning, as in training
    tokenizer_.encode(prompt, ids);
    const auto decoder = tokenizer_.stream_decoder();
    std::string text;  // what is decoded and not yet printed
    std::int64_t tokens = 0;
    if (!options_.json) print(prompt);
    generator_.generate(ids, options_.num_tokens, number_++, [&](std::int32_t token) {
      ++tokens;
      decoder->push(token, text);
      if (options_.json) return;
      print(text);
      text.clear();
    });
    decoder->finish(text);
    if (!options_.json) return print(text + "\n");
    mt::JsonWriter json;
    json.begin_object()
        .member("schema", "mt-generate/1")
        .member("prompt", prompt)
        .member("text", text)
        .member("tokens", tokens)
        .end_object();
    print(json.text() + "\n");
  }

 private:
  const Options& options_;
  const mt::Tokenizer& tokenizer_;
  mt::Runner runner_;
  mt::Generator generator_;
  std::uint32_t number_ = 0;
};

void run(mt::CommandLine& cl) {
  Options options;
  options.add_to(cl);
  cl.parse();
  if (options.prompts == std::vector<std::string>{"-"}) options.prompts.clear();
  if (options.prompts.empty() && ::isatty(STDIN_FILENO) != 0)
    mt::fail(mt::Exit::usage, "no PROMPT, and stdin is a terminal");
  const mt::LoadedGpt gpt = mt::load_gpt(options.load, options.tokenizer);
  Completer completer(options, gpt);
  for (const std::string& prompt : options.prompts) completer.complete(prompt);
  if (!options.prompts.empty()) return;
  for (std::string line; std::getline(std::cin, line);) completer.complete(line);
  if (std::ferror(stdin) != 0) mt::fail_errno("stdin", "cannot read", mt::Exit::io_error);
}

}  // namespace

int main(int argc, char** argv) { return mt::run_command("mt-generate", argc, argv, run); }
