// mt-generate: continue prompts with a trained model, here or for clients, and make embeddings of
// texts.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <functional>
#include <iostream>
#include <utility>

#include "base/command.h"
#include "base/input/byte_order_mark.h"
#include "base/input/line_reader.h"
#include "base/print.h"
#include "base/progress.h"
#include "base/signals.h"
#include "cmd/programs.h"
#include "infer/embed.h"
#include "infer/generate.h"
#include "infer/talk.h"
#include "retro/neighbor_lookup.h"
#include "serve/bench.h"
#include "serve/client.h"
#include "serve/serve.h"

static std::function<void(const std::string&)> warns(const mt::Log& log) {
  return [log](const std::string& warning) { log.warn(warning); };
}

static void run_embed(mt::CommandLine& cl) {
  mt::EmbedOptions options;
  cl.describe("make embeddings of texts with a BERT");
  options.add_to(cl);
  cl.parse();
  for (const std::string& input : options.inputs) mt::refuse_terminal(input);
  options.compute.complete(true);
  options.compute.warn(cl.log());
  options.warn = warns(cl.log());
  mt::Progress progress(cl.log(), "embedding", "texts", 0);
  mt::embed(options, mt::print_now, [&] { progress.add(1); });
  progress.finish();
}

// How many there will be; 0 where stdin has the prompts.
static std::uint64_t completions(const mt::GenerateOptions& options) {
  if (options.prompts == std::vector<std::string>{"-"}) return 0;
  if (options.prompts.empty()) return static_cast<std::uint64_t>(options.num_samples.value_or(0));
  return options.prompts.size() * static_cast<std::uint64_t>(options.num_samples.value_or(1));
}

static void run_server(mt::CommandLine& cl) {
  mt::ServeOptions options;
  cl.describe(
      "Answer requests over HTTP with a trained model.",
      "It speaks Megatron-LM's PUT /api and OpenAI's API: completions and chats, whole or as a "
      "stream (mt-serving(7)); / is a page to try prompts on.  TERM or Ctrl-C ends it once what "
      "was asked is answered.");
  cl.first_run({"--load", "--port", "--host", "--api-key-file", "--inference-max-requests",
                "--device", "--dtype", "--threads"});
  options.add_to(cl);
  cl.parse();
  options.compute.complete(true);
  options.compute.warn(cl.log());
  if (options.launch.takes_checkpoints()) mt::leave_vocab_size_unchecked(options.tokenizer);
  mt::Signals signals;
  mt::serve(options, signals, cl.log());
}

static volatile std::sig_atomic_t interrupted = 0;

// Until the first message an interrupt ends the program at once.
static void hear_interrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupted = 1; };  // what waits ends with EINTR
  ::sigaction(SIGINT, &action, nullptr);
}

// A line of stdin; nothing at its end.  An interrupt ends the program here, also one that came
// behind the end of an answer.
static std::optional<std::string> read_message(bool asks) {
  if (asks) mt::print_now("> ");
  std::string line;
  char c = 0;
  for (;;) {
    if (interrupted != 0) mt::end_by(mt::Signal::interrupt);
    // Not for ever: an interrupt may have come since.
    constexpr int kMilliseconds = 200;
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (::poll(&input, 1, kMilliseconds) <= 0) continue;
    const ssize_t count = ::read(STDIN_FILENO, &c, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) mt::fail_errno("stdin", "cannot read", mt::Exit::io_error);
    if (count == 0) return line.empty() ? std::nullopt : std::optional(line);
    if (c == '\n') {
      if (line.ends_with('\r')) line.pop_back();
      return line;
    }
    line += c;
  }
}

static void run_chat(mt::CommandLine& cl) {
  mt::TalkOptions options;
  cl.describe(
      "Talk with a trained model.",
      "Each line of stdin is a message, which the model answers with those before in mind; "
      "/clear forgets them; one that the model cannot answer is refused, and forgotten, too.  "
      "Ctrl-C stops an answer, and ends the program where none is "
      "made.");
  cl.first_run({"--load", "--system", "--chat-template", "--num-tokens", "--temperature"});
  options.add_to(cl);
  cl.parse();
  options.compute.complete(true);
  options.compute.warn(cl.log());
  options.warn = warns(cl.log());
  const bool asks = ::isatty(STDIN_FILENO) == 1;
  bool first = true;
  const auto read = [&] {
    const bool begins = std::exchange(first, false);
    if (begins) hear_interrupts();
    std::optional<std::string> message = read_message(asks);
    if (begins && message) message->erase(0, mt::byte_order_mark(*message, "stdin"));
    return message;
  };
  mt::talk(std::move(options), {.read = read, .print = mt::print_now, .stops = [] {
                                  return std::exchange(interrupted, 0) != 0;
                                }});
}

static void run_client(mt::CommandLine& cl) {
  mt::ClientOptions options;
  cl.describe("Have a server continue prompts: one of mt-generate serve, or Megatron-LM's.",
              "Two lines of stdin are a prompt and how many tokens shall follow.");
  cl.positional("HOST:PORT", &options.server, "where the server listens");
  cl.option("--api-key-file", &options.api_key_file, "FILE", "its first line is the key");
  cl.parse();
  bool first = true;
  const auto read = [&](std::string& line) {
    if (!std::getline(std::cin, line)) return false;
    if (std::exchange(first, false)) line.erase(0, mt::byte_order_mark(line, "stdin"));
    if (line.ends_with('\r')) line.pop_back();
    return true;
  };
  mt::talk(options, read, mt::print_now);
}

static void run_bench(mt::CommandLine& cl) {
  mt::BenchOptions options;
  cl.describe("Load a server with requests and tell how long they take.",
              "The server is one of mt-generate serve, or another that speaks OpenAI's API of "
              "completions.");
  options.add_to(cl);
  cl.parse();
  if (cl.given("--prompts") && cl.given("--prompt-words"))
    mt::fail(mt::Exit::usage, "--prompt-words: has no effect with --prompts");
  mt::Progress progress(cl.log(), "asking", "requests",
                        static_cast<std::uint64_t>(options.requests));
  mt::bench(options, mt::print_now, [&] { progress.add(1); });
  progress.finish();
}

static void run(mt::CommandLine& cl) {
  const std::string verb = cl.verb({{"serve", "answer requests over HTTP"},
                                    {"chat", "talk with a trained model"},
                                    {"bench", "measure how fast such a server answers"},
                                    {"client", "have such a server continue prompts"},
                                    {"embed", "make embeddings of texts with a BERT"}});
  if (verb == "serve") return run_server(cl);
  if (verb == "chat") return run_chat(cl);
  if (verb == "bench") return run_bench(cl);
  if (verb == "client") return run_client(cl);
  if (verb == "embed") return run_embed(cl);
  mt::GenerateOptions options;
  cl.describe("Continue prompts with a trained model.",
              "Prompts are arguments or, without any, the lines of stdin, which may be JSON.  Each "
              "completion goes to stdout as it is made, followed by a newline, in the order of "
              "the prompts.");
  cl.first_run({"--load", "--num-tokens", "--num-samples", "--temperature", "--top-k", "--top-p",
                "--seed", "--device", "--json"});
  options.add_to(cl);
  mt::NeighborLookupOptions lookup;
  lookup.add_to(cl);
  cl.parse();
  options.compute.complete(true);
  options.compute.warn(cl.log());
  if (lookup.complete(cl, options.compute, options.session.limits.threads))
    options.open_neighbors = [&](const mt::LoadedModel& retro) {
      return mt::open_neighbor_lookup(lookup, retro);
    };
  options.session.retrieves = lookup.gate != 0;
  const std::uint64_t total = completions(options);
  // Nothing is drawn where completions are read, or prompts perhaps typed.
  const bool talks = total == 0 || ::isatty(STDOUT_FILENO) == 1;
  mt::Progress progress(talks ? cl.log().without_drawing() : cl.log(), "generating", "completions",
                        total);
  options.session.answered = [&] { progress.add(1); };
  options.warn = warns(cl.log());
  mt::generate(std::move(options), mt::print_now);
}

int mt_generate(int argc, char** argv) { return mt::run_command("mt-generate", argc, argv, run); }
