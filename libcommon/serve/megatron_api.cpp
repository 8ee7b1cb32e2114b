// PUT /api: Megatron-LM's text generation server.
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "infer/beam_search.h"
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

void say_why(Exchange& exchange, const ApiError& why) {
  Exchange::Headers headers;
  if (why.status == 429) headers.emplace_back("Retry-After", "1");
  say(exchange, why.status, why.message, std::move(headers));
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
    one.failed = [pending](const ApiError& why) {
      if (!std::exchange(pending->answered, true)) say_why(*pending->exchange, why);
    };
  }
  submit(serving, exchange, std::move(work));
}

// One request that searches with beams, a token of each at a time, between which others get theirs.
struct Beams {
  std::shared_ptr<Exchange> exchange;
  const Tokenizer& tokenizer;
  std::string prompt;
  std::size_t prompt_tokens;
  BeamSearch search;

  // Each begins with what the cache has of it.
  void step(EngineLoop& loop) {
    CachedPass& pass = loop.pass(std::ssize(search.open()));
    std::vector<std::vector<double>> logits;
    for (const BeamSearch::Text& text : search.open()) {
      const auto number = std::ssize(logits);
      const auto shared = static_cast<std::size_t>(pass.start(number, text.ids));
      const ConstTensor row = pass.next_logits(number, std::span(text.ids).subspan(shared));
      logits.push_back(with_float_type(row.dtype(), [&]<class T>() {
        return std::vector<double>(row.span<T>().begin(), row.span<T>().end());
      }));
      pass.start(number);
    }
    search.take(logits);
  }

  // Whether there is another.
  bool turn(EngineLoop& loop) {
    try {
      step(loop);
      if (!search.open().empty()) return true;
      exchange->answer(200, kJson, json());
    } catch (const std::exception& error) {
      say(*exchange, 500, error.what());
    }
    return false;
  }

  std::string json() const {
    JsonWriter writer;
    writer.begin_object().key("scores").begin_array();
    for (const BeamSearch::Text& text : search.found()) writer.value(text.score);
    writer.end_array().key("segments").begin_array();
    for (const BeamSearch::Text& text : search.found()) {
      writer.begin_array();
      for (const std::int32_t id : text.ids) writer.value(token_bytes(tokenizer, id));
      writer.end_array();
    }
    writer.end_array().key("text").begin_array();
    for (const BeamSearch::Text& text : search.found())
      writer.value(prompt + tokenizer.decode_text(std::span(text.ids).subspan(prompt_tokens)));
    return writer.end_array().end_object().text() + "\n";
  }
};

// Refuses what other completions do, and beams do not.
void check_beams(const MegatronRequest& request) {
  const std::pair<const char*, bool> others[] = {
      {"logprobs", request.logprobs},
      {"stop_on_eol", request.stop_on_eol},
      {"stop_on_double_eol", request.stop_on_double_eol},
      {"prevent_newline_after_colon", request.prevent_newline_after_colon}};
  for (const auto& [name, asked] : others)
    if (asked) throw MegatronRefusal{concat(name, " is not supported with beam_width"), true};
}

void begin_beams(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
                 const MegatronRequest& request) {
  constexpr std::int64_t kMostBeams = 64;
  const CompletionModel& model = serving.model;
  if (model.start_token)
    throw MegatronRefusal{"beam_width: the model has an encoder, and searches with no beams", true};
  if (*request.beam_width > kMostBeams)
    throw MegatronRefusal{"beam_width must be at most 64", true};
  if (request.tokens_to_generate == 0)
    throw MegatronRefusal{"beam_width: tokens_to_generate is 0", true};
  check_beams(request);
  const std::int64_t stop = request.stop_token.value_or(model.tokenizer.eod());
  if (request.stop_token && (stop < 0 || stop >= model.vocab_size))
    throw MegatronRefusal{concat("stop_token must be from 0 to ", model.vocab_size - 1), true};
  CompletionOptions options;
  options.num_tokens = request.tokens_to_generate;
  options.begin_document = request.add_bos;
  const Completion completion(model, request.prompts[0], options, 0, 0);
  if (!fits(serving, completion, 0))
    throw MegatronRefusal{"context length + tokens_to_generate too large"};
  const std::vector<std::int32_t> prompt = completion.ids();
  const std::int64_t most = serving.loop.max_tokens() - std::ssize(prompt);
  const auto beams = std::make_shared<Beams>(
      Beams{.exchange = exchange,
            .tokenizer = model.tokenizer,
            .prompt = request.prompts[0],
            .prompt_tokens = prompt.size(),
            .search = BeamSearch({.width = *request.beam_width,
                                  .num_tokens = std::min(request.tokens_to_generate, most),
                                  .stop_token = static_cast<std::int32_t>(stop),
                                  .length_penalty = request.length_penalty},
                                 prompt)});
  if (beams->search.open().empty())
    throw MegatronRefusal{"context length + tokens_to_generate too large"};
  submit(serving, exchange, [beams](EngineLoop& loop) { return beams->turn(loop); },
         {.failed = [exchange](const ApiError& why) { say_why(*exchange, why); }});
}

}  // namespace

void serve_megatron(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  try {
    MegatronRequest request = parse_megatron_request(exchange->request().body);
    check_unknown(serving, request.unknown);
    if (request.beam_width) return begin_beams(serving, exchange, request);
    begin(serving, exchange, std::move(request));
  } catch (const MegatronRefusal& refusal) {
    say(*exchange, serving.megatron_compat && !refusal.bad_request ? 200 : 400, refusal.text);
  } catch (const ApiError& error) {
    if (error.status == 400) return say(*exchange, 400, error.message);
    say(*exchange, error.status, error.message, {{"Retry-After", "1"}});
  } catch (const Error& error) {
    say(*exchange, serving.megatron_compat ? 200 : 400, error.what());
  }
}

}  // namespace mt
