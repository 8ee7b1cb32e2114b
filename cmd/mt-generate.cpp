// mt-generate: continue prompts with a trained model, and make embeddings of texts.
#include <atomic>
#include <cstdio>

#include "base/activity.h"
#include "base/command.h"
#include "base/progress.h"
#include "infer/embed.h"
#include "infer/generate.h"

static void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    mt::fail_errno("stdout", "cannot write", mt::Exit::io_error);
}

static void run_embed(mt::CommandLine& cl) {
  mt::EmbedOptions options;
  cl.describe("make embeddings of texts with a BERT");
  options.add_to(cl);
  cl.parse();
  options.compute.complete(true);
  options.compute.warn(cl.log());
  mt::Progress progress(cl.log(), "embedding", "texts", 0);
  mt::embed(options, print, [&] { progress.add(1); });
  progress.finish();
}

static void run(mt::CommandLine& cl) {
  if (cl.verb({{"embed", "make embeddings of texts with a BERT"}}) == "embed") return run_embed(cl);
  mt::GenerateOptions options;
  cl.describe("Continue prompts with a trained model.",
              "Prompts are arguments or, without any, the lines of stdin, which may be JSON.  Each "
              "completion goes to stdout as it is made, followed by a newline, in the order of "
              "the prompts.");
  cl.first_run({"--load", "--num-tokens", "--num-samples", "--temperature", "--top-k", "--top-p",
                "--seed", "--device", "--json"});
  options.add_to(cl);
  cl.parse();
  options.compute.complete(true);
  options.compute.warn(cl.log());
  std::atomic<std::size_t> bytes = 0;
  const mt::Activity asked(cl.log(), [&] {
    cl.log().event("state", {{"what", "generating"}, {"unit", "bytes"}, {"done", bytes.load()}},
                   mt::Log::Level::quiet);
  });
  mt::generate(std::move(options), [&](std::string_view text) {
    print(text);
    bytes += text.size();
  });
}

int main(int argc, char** argv) { return mt::run_command("mt-generate", argc, argv, run); }
