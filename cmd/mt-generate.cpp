// mt-generate: continue prompts with a trained model.
#include <cstdio>
#include <deque>

#include "base/command.h"
#include "formats/load_model.h"
#include "infer/generator.h"
#include "infer/prompt_reader.h"

namespace {

using Finish = mt::Completion::Finish;

struct Options {
  std::string load;
  std::vector<std::string> prompts;
  std::optional<std::int64_t> num_samples;
  std::int64_t max_requests = 8;
  int threads = 0;
  bool json = false;
  mt::DeviceOptions compute{.dtype = ""};
  mt::TokenizerOptions tokenizer;
  mt::CompletionOptions completion;

  void add_to(mt::CommandLine& cl) {
    cl.describe(
        "Continue prompts with a trained model.",
        "Prompts are arguments or, without any, the lines of stdin, which may be JSON.  Each "
        "completion goes to stdout as it is made, followed by a newline, in the order of "
        "the prompts.");
    cl.positionals("PROMPT", &prompts,
                   "text to continue; - alone, or none without --num-samples: lines of stdin", 0);
    cl.section("Model");
    cl.option("--load", &load, "PATH", mt::kLoadedModel);
    cl.required("--load");
    compute.add_to(cl, mt::kDtypeAsStored);
    tokenizer.add_to(cl);
    tokenizer.add_extra_ids_to(cl);
    completion.add_to(cl);
    cl.section("Output");
    cl.option("--num-samples", &num_samples, "N",
              "completions of each prompt [1]; without PROMPT, of the empty text", mt::at_least(1));
    cl.flag("--json", &json, "one JSON object a line instead of text");
    cl.option("--inference-max-requests,--max-batch-size", &max_requests, "N",
              "completions at a time; changes no result", mt::between(1, 1024));
    cl.option("--threads,-j", &threads, "N", "worker threads of the CPU; 0: one a core",
              mt::at_least(0));
  }
};

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    mt::fail_errno("stdout", "cannot write", mt::Exit::io_error);
}

struct Request {
  mt::Prompt prompt;
  std::int64_t sample;
  mt::Completion completion;
  bool begun = false;  // its prompt is printed
};

void write_token(mt::JsonWriter& json, const mt::Tokenizer& tokenizer, std::int32_t id,
                 double log_prob) {
  const std::string bytes = tokenizer.decode({&id, 1});
  json.member("token", bytes).member("id", id).member("logprob", log_prob).key("bytes");
  json.begin_array();
  for (const char byte : bytes) json.value(static_cast<int>(static_cast<unsigned char>(byte)));
  json.end_array();
}

void write_log_probs(mt::JsonWriter& json, const mt::Tokenizer& tokenizer,
                     const mt::Completion& completion) {
  json.key("logprobs").begin_array();
  for (std::size_t i = 0; i < completion.log_probs().size(); ++i) {
    const mt::LogProbs& probs = completion.log_probs()[i];
    json.begin_object();
    write_token(json, tokenizer, completion.made()[i], probs.chosen);
    json.key("top_logprobs").begin_array();
    for (const auto& [id, log_prob] : probs.top) {
      json.begin_object();
      write_token(json, tokenizer, id, log_prob);
      json.end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

void print_json(const Request& request, const mt::Tokenizer& tokenizer) {
  const auto& [prompt, sample, completion, begun] = request;
  mt::JsonWriter json;
  json.begin_object().member("schema", "mt-generate/1").member("prompt", prompt.text);
  if (prompt.num_samples > 1) json.member("sample", sample);
  json.member("text", completion.text())
      .member("tokens", completion.made().size())
      .member("finish_reason", completion.finish() == Finish::stop ? "stop" : "length")
      .key("token_ids")
      .begin_array();
  for (const std::int32_t id : completion.made()) json.value(id);
  json.end_array();
  if (prompt.options.logprobs) write_log_probs(json, tokenizer, completion);
  for (const auto& [key, value] : prompt.others) json.key(key).raw(value);
  json.end_object();
  print(json.text() + "\n");
}

class Session {
 public:
  Session(const Options& options, const mt::LoadedModel& loaded, mt::PromptReader& reader)
      : json_(options.json),
        reader_(reader),
        tokenizer_(*loaded.tokenizer),
        runner_(*loaded.model, {.vocab_size = tokenizer_.vocab_size(),
                                .sequences = options.max_requests,
                                .threads = options.threads}),
        generator_(runner_) {}

  // Before a prompt that is wrong ends the run, those before it are answered.
  void run() {
    std::exception_ptr wrong;
    for (;;) {
      try {
        while (!wrong && !generator_.full() && admit()) continue;
      } catch (const mt::Error&) {
        wrong = std::current_exception();
      }
      if (requests_.empty()) break;
      generator_.step();
      print_made();
    }
    if (wrong) std::rethrow_exception(wrong);
  }

 private:
  // A request more; false if there is none, or none yet.  Only waits for a prompt when idle.
  bool admit() {
    if (!prompt_ || sample_ == prompt_->num_samples) {
      prompt_ = reader_.next(requests_.empty());
      if (!prompt_) return false;
      sample_ = 0;
      ++prompts_;
      prompt_->options.check(tokenizer_, prompt_->place);
      if (prompt_->options.logprobs && !json_)
        mt::fail(mt::Exit::usage, prompt_->place, ": logprobs: needs --json");
    }
    mt::Completion completion(tokenizer_, prompt_->text, prompt_->options, prompts_ - 1,
                              static_cast<std::uint32_t>(sample_));
    if (const auto tokens = static_cast<std::int64_t>(completion.ids().size());
        tokens > runner_.max_tokens()) {
      const mt::Prompt wrong = *std::exchange(prompt_, {});
      mt::fail(mt::Exit::bad_data, wrong.place, ": ", tokens - 1,
               " tokens, and one in front that ends a document; the model takes at most ",
               runner_.max_tokens());
    }
    requests_.push_back({*prompt_, sample_++, std::move(completion)});
    generator_.add(requests_.back().completion);
    return true;
  }

  // What the first request has made so far, and all that are finished up to one that is not.
  void print_made() {
    for (; !requests_.empty(); requests_.pop_front()) {
      Request& request = requests_.front();
      const bool finished = request.completion.finish() != Finish::none;
      if (json_ && finished) print_json(request, tokenizer_);
      if (!json_) {
        if (!request.begun) print(request.prompt.text);
        request.begun = true;
        print(request.completion.take());
        if (finished) print("\n");
      }
      if (!finished) return;
    }
  }

  bool json_;
  mt::PromptReader& reader_;
  const mt::Tokenizer& tokenizer_;
  mt::Runner runner_;
  mt::Generator generator_;
  std::deque<Request> requests_;  // in the order of the output; the generator points into it
  std::optional<mt::Prompt> prompt_;
  std::int64_t sample_ = 0;  // of prompt_, the next
  std::uint32_t prompts_ = 0;
};

void run(mt::CommandLine& cl) {
  Options options;
  options.add_to(cl);
  cl.parse();
  if (options.completion.logprobs && !options.json)
    mt::fail(mt::Exit::usage, "--logprobs: needs --json");
  options.compute.complete(true);
  bool from_stdin = options.prompts.empty();
  if (options.prompts == std::vector<std::string>{"-"}) {
    options.prompts.clear();
    from_stdin = true;
  } else if (from_stdin && options.num_samples) {
    options.prompts.emplace_back();
    from_stdin = false;
  }
  const mt::LoadedModel loaded = mt::load_model(options.load, options.tokenizer, options.compute);
  options.completion.check(*loaded.tokenizer, "options");
  mt::PromptReader reader(options.prompts, from_stdin,
                          {.text = {},
                           .place = {},
                           .options = options.completion,
                           .num_samples = options.num_samples.value_or(1),
                           .others = {}});
  Session(options, loaded, reader).run();
}

}  // namespace

int main(int argc, char** argv) { return mt::run_command("mt-generate", argc, argv, run); }
