#include "serve/answer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "infer/token_json.h"
#include "serve/log_prob_lists.h"

namespace mt {
namespace {

const char* finish_reason(const Completion& completion, bool calls) {
  switch (completion.finish()) {
    case Completion::Finish::none:
      return nullptr;
    case Completion::Finish::length:
      return "length";
    case Completion::Finish::stop:
      break;
  }
  return calls ? "tool_calls" : "stop";
}

// One request.  Once it is submitted the loop's thread alone works with it.
class Answer : public std::enable_shared_from_this<Answer> {
 public:
  Answer(const Serving& serving, std::shared_ptr<Exchange> exchange, CompletionRequest request,
         bool chat)
      : serving_(serving),
        exchange_(std::move(exchange)),
        request_(std::move(request)),
        chat_(chat),
        id_(drawn_id(chat ? "chatcmpl-" : "cmpl-")),
        created_(seconds_since_1970()) {}

  void begin();

 private:
  struct Choice {
    explicit Choice(const Tokenizer& tokenizer) : lists(tokenizer) {}

    std::string prompt;               // as echo shows it
    std::vector<LogProbs> of_prompt;  // of its tokens but the first
    std::string prompt_log_probs;     // their JSON, where they are asked for
    std::int64_t prompt_tokens = 0, made = 0;
    LogProbLists lists;
    std::size_t told = 0;                   // log-probabilities that were written
    std::optional<ChatReader> reader = {};  // of a chat whose form is read
    std::size_t calls = 0;                  // that were sent
    bool begun = false;                     // of a stream
    double log_probs = 0;                   // their mean, once it has ended
    std::string members;                    // and what is said of it then
  };

  void made(Choice& choice, Completion& completion);
  void failed(const ApiError& why);
  // What stands behind a choice's "index": `content` is the JSON of its text, message or delta.
  // Log-probabilities are of tokens of which nothing was said.
  std::string members_of(Choice& choice, std::string_view content, const Completion& completion,
                         bool ended);
  std::string text_members(Choice& choice, std::string_view text, const Completion& completion);
  void write_log_probs(JsonWriter& json, Choice& choice, const Completion& completion) const;
  void stream(Choice& choice, Completion& completion);
  void end_stream();
  void answer_whole();
  void send(const Choice& choice, const std::string& members);
  JsonWriter head() const;
  std::int64_t prompt_tokens() const;  // of all prompts

  const Serving& serving_;
  std::shared_ptr<Exchange> exchange_;
  CompletionRequest request_;
  bool chat_;
  std::string id_;
  std::int64_t created_;
  std::vector<Choice> choices_;  // best_of of each prompt
  std::size_t left_ = 0;
  bool streaming_ = false, failed_ = false;
};

std::string choice_json(std::int64_t index, const std::string& members) {
  return concat("{\"index\":", index, ",", members);
}

void write_usage(JsonWriter& json, std::int64_t prompt, std::int64_t completion) {
  json.key("usage").begin_object();
  json.member("prompt_tokens", prompt).member("completion_tokens", completion);
  json.member("total_tokens", prompt + completion).end_object();
}

void Answer::begin() {
  const Tokenizer& tokenizer = serving_.model.tokenizer;
  const auto each = static_cast<std::size_t>(request_.best_of);
  const std::size_t count = completions_of(serving_, request_);
  left_ = count;
  choices_.reserve(count);
  std::vector<EngineLoop::Work> work;
  for (std::size_t i = 0; i < count; ++i) {
    Choice& choice = choices_.emplace_back(tokenizer);
    EngineLoop::Work& one = work.emplace_back();
    one.completion =
        make_completion(serving_, request_, i / each, static_cast<std::int64_t>(i % each), chat_);
    choice.prompt_tokens = std::ssize(one.completion->prompt());
    if (const auto* text = std::get_if<std::string>(&request_.prompts[i / each]))
      choice.prompt = *text;
    else
      choice.prompt = tokenizer.decode_text(one.completion->prompt());
    if (request_.form.any()) choice.reader.emplace(request_.form, choice.prompt);
    one.prompt_alternatives = request_.prompt_logprobs;
    if (request_.echo && request_.logprobs)
      one.prompt_alternatives = std::max(request_.logprobs, request_.prompt_logprobs);
    if (one.prompt_alternatives) {
      one.scored = [self = shared_from_this(), &choice](std::vector<LogProbs> scores) {
        choice.of_prompt = std::move(scores);
      };
    }
    one.made = [self = shared_from_this(), &choice](Completion& completion) {
      self->made(choice, completion);
    };
    one.failed = [self = shared_from_this()](const ApiError& why) { self->failed(why); };
  }
  if (request_.of_task)
    go_on(serving_, exchange_, std::move(work));
  else
    submit(serving_, exchange_, std::move(work));
}

void Answer::made(Choice& choice, Completion& completion) {
  if (failed_) return;
  const bool ended = completion.finish() != Completion::Finish::none;
  choice.made = std::ssize(completion.made()) + (completion.end_token() ? 1 : 0);
  if (request_.stream.stream) {
    stream(choice, completion);
  } else if (ended) {
    for (const LogProbs& probs : completion.log_probs()) choice.log_probs += probs.chosen;
    choice.log_probs /= static_cast<double>(std::max<std::int64_t>(1, choice.made));
    if (request_.prompt_logprobs)
      choice.prompt_log_probs =
          prompt_log_probs_json(serving_.model.tokenizer, completion.prompt(), choice.of_prompt,
                                static_cast<std::size_t>(*request_.prompt_logprobs));
    choice.members = text_members(choice, completion.text(), completion);
  }
  if (!ended || --left_ > 0) return;
  if (request_.stream.stream)
    end_stream();
  else
    answer_whole();
}

void Answer::failed(const ApiError& error) {
  if (std::exchange(failed_, true)) return;
  if (!streaming_) return answer_error(*exchange_, error);
  send_event(*exchange_, error_json(error));
  exchange_->end_stream(false);
}

// Writes how likely the tokens are, those of the prompt, too, where it is shown, each with as many
// alternatives.
void Answer::write_log_probs(JsonWriter& json, Choice& choice, const Completion& completion) const {
  const std::vector<LogProbs>& all = completion.log_probs();
  std::vector<std::int32_t> ids(completion.made().begin(), completion.made().end());
  if (completion.end_token()) ids.push_back(*completion.end_token());
  const std::size_t first = std::exchange(choice.told, all.size());
  if (chat_) {
    json.begin_object().key("content");
    mt::write_log_probs(json, serving_.model.tokenizer, std::span(ids).subspan(first),
                        std::span(all).subspan(first));
    json.key("refusal").null().end_object();
    return;
  }
  const std::span<const std::int32_t> prompt = completion.prompt();
  for (std::size_t k = 0; request_.echo && !choice.begun && k < prompt.size(); ++k) {
    if (k == 0) {
      choice.lists.add(prompt[k], nullptr);
      continue;
    }
    LogProbs probs = choice.of_prompt[k - 1];
    probs.top.resize(std::min(probs.top.size(), static_cast<std::size_t>(*request_.logprobs)));
    choice.lists.add(prompt[k], &probs);
  }
  for (std::size_t k = first; k < all.size(); ++k) choice.lists.add(ids[k], &all[k]);
  json.raw(choice.lists.take());
}

std::string Answer::members_of(Choice& choice, std::string_view content,
                               const Completion& completion, bool ended) {
  JsonWriter json;
  json.begin_object().key("logprobs");
  if (request_.logprobs)
    write_log_probs(json, choice, completion);
  else
    json.null();
  json.key("finish_reason");
  if (const char* const reason = ended ? finish_reason(completion, choice.calls > 0) : nullptr)
    json.value(reason);
  else
    json.null();
  if (!chat_ && !choice.prompt_log_probs.empty())
    json.key("prompt_logprobs").raw(choice.prompt_log_probs);
  choice.begun = true;
  return concat(content, ",", json.end_object().text().substr(1));
}

// "text":"...", of a chat "message":{...}
std::string Answer::text_members(Choice& choice, std::string_view text,
                                 const Completion& completion) {
  JsonWriter json;
  json.begin_object();
  if (chat_) {
    json.key("message").begin_object().member("role", "assistant").key("content");
    ChatReader::Said said{.thought = {}, .text = std::string(text)};
    if (choice.reader) said = choice.reader->take(text, true);
    if (said.text.empty() && !said.calls.empty())
      json.null();
    else
      json.value(said.text);
    if (!said.thought.empty()) json.member("reasoning_content", said.thought);
    json.key("refusal").null();
    choice.calls = said.calls.size();
    if (choice.calls > 0) {
      json.key("tool_calls").begin_array();
      for (const ToolCall& call : said.calls) {
        json.begin_object().member("id", drawn_call_id(request_.form)).member("type", "function");
        json.key("function").begin_object().member("name", call.name);
        json.member("arguments", call.arguments).end_object().end_object();
      }
      json.end_array();
    }
    json.end_object();
  } else {
    json.member("text", (request_.echo && !choice.begun ? choice.prompt : "").append(text));
  }
  const std::string content = json.end_object().text();
  const bool ended = completion.finish() != Completion::Finish::none;
  return members_of(choice, std::string_view(content).substr(1, content.size() - 2), completion,
                    ended);
}

JsonWriter Answer::head() const {
  JsonWriter json;
  const char* const of_chat = request_.stream.stream ? "chat.completion.chunk" : "chat.completion";
  json.begin_object().member("id", id_).member("object", chat_ ? of_chat : "text_completion");
  json.member("created", created_).member("model", name_of(serving_, request_.options.adapter));
  json.member("seed", static_cast<std::int64_t>(request_.options.sampling.seed));
  return json;
}

std::int64_t Answer::prompt_tokens() const {
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < choices_.size(); i += static_cast<std::size_t>(request_.best_of))
    tokens += choices_[i].prompt_tokens;
  return tokens;
}

// --- A stream -----------------------------------------------------------------------------------

// Nothing is sent for a token whose text is not certain yet, unless log-probabilities are asked
// for.  A chat's first event says who speaks, and its last one why it ends.
void Answer::stream(Choice& choice, Completion& completion) {
  const std::string_view text = completion.take();
  const bool ended = completion.finish() != Completion::Finish::none;
  if (text.empty() && !ended && !request_.logprobs) return;
  if (!std::exchange(streaming_, true)) begin_events(*exchange_);
  if (!chat_) return send(choice, text_members(choice, text, completion));
  static constexpr std::string_view kUnsaid = R"(,"logprobs":null,"finish_reason":null})";
  if (!std::exchange(choice.begun, true))
    send(choice, concat(R"("delta":{"role":"assistant","content":""})", kUnsaid));
  ChatReader::Said said{.thought = {}, .text = std::string(text)};
  if (choice.reader) said = choice.reader->take(text, ended);
  const bool thinks = !said.thought.empty();
  if (thinks || !said.text.empty() || completion.log_probs().size() > choice.told) {
    JsonWriter delta;
    delta.begin_object();
    if (thinks) delta.member("reasoning_content", said.thought);
    if (!thinks || !said.text.empty()) delta.member("content", said.text);
    delta.end_object();
    send(choice, members_of(choice, concat(R"("delta":)", delta.text()), completion, false));
  }
  for (const ToolCall& call : said.calls) {
    const std::size_t index = choice.calls++;
    const auto send_delta = [&](const auto& write) {
      JsonWriter delta;
      delta.begin_object().key("tool_calls").begin_array().begin_object().member("index", index);
      write(delta);
      delta.end_object().end_array().end_object();
      send(choice, concat(R"("delta":)", delta.text(), kUnsaid));
    };
    send_delta([&](JsonWriter& json) {
      json.member("id", drawn_call_id(request_.form)).member("type", "function").key("function");
      json.begin_object().member("name", call.name).member("arguments", "").end_object();
    });
    send_delta([&](JsonWriter& json) {
      json.key("function").begin_object().member("arguments", call.arguments).end_object();
    });
  }
  if (ended)
    send(choice, concat(R"("delta":{},"logprobs":null,"finish_reason":")",
                        finish_reason(completion, choice.calls > 0), "\"}"));
}

void Answer::send(const Choice& choice, const std::string& members) {
  JsonWriter json = head();
  json.key("choices").begin_array();
  json.raw(choice_json(&choice - choices_.data(), members)).end_array();
  if (request_.stream.continuous_usage)
    write_usage(json, choice.prompt_tokens, choice.made);
  else if (request_.stream.include_usage)
    json.key("usage").null();
  send_event(*exchange_, json.end_object().text());
}

void Answer::end_stream() {
  if (request_.stream.include_usage) {
    std::int64_t made = 0;
    for (const Choice& choice : choices_) made += choice.made;
    JsonWriter json = head();
    json.key("choices").begin_array().end_array();
    write_usage(json, prompt_tokens(), made);
    send_event(*exchange_, json.end_object().text());
  }
  send_event(*exchange_, "[DONE]");
  exchange_->end_stream();
}

// --- The whole ----------------------------------------------------------------------------------

// Of best_of choices of each prompt the likeliest n, in that order.
void Answer::answer_whole() {
  JsonWriter json = head();
  json.key("choices").begin_array();
  std::int64_t index = 0, made = 0;
  const auto each = static_cast<std::size_t>(request_.best_of);
  for (std::span<Choice> all(choices_); !all.empty(); all = all.subspan(each)) {
    std::vector<const Choice*> best;
    for (const Choice& choice : all.first(each)) {
      best.push_back(&choice);
      made += choice.made;
    }
    if (request_.best_of > request_.n)
      std::ranges::stable_sort(best, std::greater(), &Choice::log_probs);
    for (std::int64_t k = 0; k < request_.n; ++k)
      json.raw(choice_json(index++, best[static_cast<std::size_t>(k)]->members));
  }
  json.end_array();
  if (chat_ && request_.prompt_logprobs)
    json.key("prompt_logprobs").raw(choices_[0].prompt_log_probs);
  write_usage(json, prompt_tokens(), made);
  exchange_->answer(200, kJson, json.end_object().text());
}

}  // namespace

std::unique_ptr<Completion> make_completion(const Serving& serving,
                                            const CompletionRequest& request, std::size_t prompt,
                                            std::int64_t sample, bool chat) {
  CompletionOptions options = request.options;
  const auto build = [&] {
    return std::visit(
        [&](const auto& input) {
          return std::make_unique<Completion>(serving.model, input, options,
                                              static_cast<std::uint32_t>(prompt),
                                              static_cast<std::uint32_t>(sample));
        },
        request.prompts[prompt]);
  };
  try {
    std::unique_ptr<Completion> completion = build();
    if (fits(serving, *completion, options.num_tokens)) return completion;
    const std::int64_t size = std::ssize(completion->prompt()), most = serving.loop.max_tokens();
    if (size > most || (size == most && !serving.model.start_token))
      throw ApiError{.message = concat("the prompt has ", size, " tokens, and the model takes ",
                                       most, " with those that are to be made"),
                     .param = chat ? "messages" : "prompt",
                     .code = "context_length_exceeded"};
    if (!serving.clamp_max_tokens && !request.clamps)
      throw ApiError{.message = concat("the prompt's ", size, " tokens and max_tokens ",
                                       options.num_tokens, " are more than the model's ", most),
                     .param = "max_tokens",
                     .code = "context_length_exceeded"};
    options.num_tokens = serving.model.start_token ? serving.model.decoder_positions : most - size;
    return build();
  } catch (const Error& error) {
    throw ApiError{.message = error.what(), .param = chat ? "messages" : "prompt"};
  }
}

std::string drawn_call_id(const ChatForm& form) {
  const bool mistral = form.calls == ToolForm::mistral || form.calls == ToolForm::mistral_args;
  return mistral ? drawn_id("", 9) : drawn_id("call_");
}

std::size_t completions_of(const Serving& serving, const CompletionRequest& request) {
  const std::size_t count = request.prompts.size() * static_cast<std::size_t>(request.best_of);
  if (count > serving.loop.most())
    throw ApiError{.message = concat(count, " completions; the server takes at most ",
                                     serving.loop.most(), " at a time")};
  return count;
}

void answer_completions(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
                        CompletionRequest request, bool chat) {
  request.options.adapter = adapter_of(serving, request.model);
  try {
    request.options.check(serving.model.vocab_size, "request");
  } catch (const Error& error) {
    throw ApiError{.message = error.what()};
  }
  if (request.echo && request.logprobs && serving.model.start_token)
    RequestFields::wrong("echo", "false, with logprobs: the model's encoder scores no prompt");
  if (request.prompt_logprobs && serving.model.start_token)
    RequestFields::wrong("prompt_logprobs", "nothing: the model's encoder scores no prompt");
  if (request.response) return answer_response(serving, exchange, std::move(request));
  std::make_shared<Answer>(serving, exchange, std::move(request), chat)->begin();
}

}  // namespace mt
