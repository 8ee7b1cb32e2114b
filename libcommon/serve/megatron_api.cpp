// PUT /api: Megatron-LM's text generation server.
#include <utility>

#include "base/json.h"
#include "infer/token_json.h"
#include "serve/megatron_request.h"
#include "serve/serving.h"

namespace mt {
namespace {

// Every text that this server says is one JSON string and a newline.
void say(Exchange& exchange, int status, std::string_view text, Exchange::Headers headers = {}) {
  JsonWriter json;
  json.value(text);
  exchange.answer(status, kJson, json.text() + "\n", std::move(headers));
}

// One request: its completions as they end, on the loop's thread.
struct Pending {
  struct Result {
    std::string text;
    std::vector<std::string> segments;
    std::vector<double> log_probs;
  };
  std::shared_ptr<Exchange> exchange;
  MegatronRequest request;
  const Tokenizer& tokenizer;
  std::vector<Result> results;
  std::size_t left = 0;
  bool answered = false;

  void end(std::size_t i, const Completion& completion) {
    Result& result = results[i];
    result.text = request.prompts[i] + completion.text();
    const std::span<const std::int32_t> prompt = completion.prompt(), made = completion.made();
    std::vector<std::int32_t> ids(prompt.begin(), prompt.end());
    ids.insert(ids.end(), made.begin(), made.end());
    for (const std::int32_t id : ids) result.segments.push_back(token_bytes(tokenizer, id));
    for (std::size_t k = 0; k < completion.made().size() && request.logprobs; ++k)
      result.log_probs.push_back(completion.log_probs()[k].chosen);
    if (--left == 0 && !std::exchange(answered, true)) exchange->answer(200, kJson, json());
  }

  std::string json() const {
    JsonWriter writer;
    const auto list = [&](const char* key, const auto& write) {
      writer.key(key).begin_array();
      for (const Result& result : results) write(result);
      writer.end_array();
    };
    const auto array = [&](const auto& values) {
      writer.begin_array();
      for (const auto& value : values) writer.value(value);
      writer.end_array();
    };
    writer.begin_object();
    if (request.logprobs) list("logprobs", [&](const Result& r) { array(r.log_probs); });
    list("segments", [&](const Result& r) { array(r.segments); });
    list("text", [&](const Result& r) { writer.value(r.text); });
    writer.end_object();
    return writer.text() + "\n";
  }
};

void begin(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
           MegatronRequest request) {
  const Tokenizer& tokenizer = serving.model.tokenizer;
  if (request.add_bos && serving.model.start_token)
    throw MegatronRefusal{"add_BOS: nothing stands in front of what the model's encoder reads",
                          true};
  if (request.logprobs && serving.model.start_token)
    throw MegatronRefusal{"logprobs: the model's encoder reads prompts, and scores none", true};
  const CompletionOptions options = request.completion(
      tokenizer,
      request.random_seed ? static_cast<std::uint64_t>(*request.random_seed) : drawn_seed());
  auto pending = std::make_shared<Pending>(Pending{
      .exchange = exchange, .request = std::move(request), .tokenizer = tokenizer, .results = {}});
  const std::vector<std::string>& prompts = pending->request.prompts;
  pending->results.resize(prompts.size());
  pending->left = prompts.size();
  std::vector<EngineLoop::Work> work;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    auto completion = std::make_unique<Completion>(serving.model, prompts[i], options,
                                                   static_cast<std::uint32_t>(i), 0);
    if (!fits(serving, *completion, options.num_tokens))
      throw MegatronRefusal{"Length of prompt + tokens_to_generate longer than allowed"};
    EngineLoop::Work& one = work.emplace_back();
    one.completion = std::move(completion);
    if (pending->request.logprobs) {
      one.prompt_alternatives = 0;
      one.scored = [pending, i](const std::vector<LogProbs>& scores) {
        for (const LogProbs& score : scores) pending->results[i].log_probs.push_back(score.chosen);
      };
    }
    one.made = [pending, i](const Completion& made) {
      if (made.finish() != Completion::Finish::none) pending->end(i, made);
    };
    one.failed = [pending](const std::string& why) {
      if (!std::exchange(pending->answered, true)) say(*pending->exchange, 500, why);
    };
  }
  submit(serving, exchange, std::move(work));
}

}  // namespace

void serve_megatron(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  try {
    MegatronRequest request = parse_megatron_request(exchange->request().body);
    if (request.beam_width)
      throw MegatronRefusal{"beam_width: this server searches with no beams", true};
    begin(serving, exchange, std::move(request));
  } catch (const MegatronRefusal& refusal) {
    say(*exchange, serving.megatron_compat && !refusal.bad_request ? 200 : 400, refusal.text);
  } catch (const ApiError& error) {
    say(*exchange, error.status, error.message, {{"Retry-After", "1"}});
  } catch (const Error& error) {
    say(*exchange, serving.megatron_compat ? 200 : 400, error.what());
  }
}

}  // namespace mt
