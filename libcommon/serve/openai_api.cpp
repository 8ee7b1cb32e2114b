// POST /v1/completions and /v1/chat/completions, and /apply-template, which shows the text that a
// chat becomes.
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "infer/chat_prompts.h"
#include "infer/infill.h"
#include "serve/answer.h"
#include "serve/grammars.h"

namespace mt {

static constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

// The prompts become those of texts that stand in front of the request's suffix.
static void put_in_middle(const Serving& serving, CompletionRequest& request) {
  for (PromptInput& prompt : request.prompts) {
    const auto* const before = std::get_if<std::string>(&prompt);
    if (before == nullptr) RequestFields::wrong("suffix", "nothing, behind token numbers");
    auto ids = infill(serving.model.tokenizer, *before, *request.suffix);
    if (!ids)
      throw ApiError{.message = "suffix: the tokenizer has no tokens to fill in the middle with",
                     .param = "suffix"};
    prompt = *std::move(ids);
  }
}

void serve_completions(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  RequestFields fields(exchange->request().body);
  CompletionRequest request = read_completion_request(fields, drawn_seed());
  check_unknown(serving, fields.unknown());
  if (request.suffix) put_in_middle(serving, request);
  answer_completions(serving, exchange, std::move(request), false);
}

std::string chat_text(const Serving& serving, const Exchange& exchange, RequestFields& fields) {
  if (!fields.any("messages"))
    throw ApiError{.message = "messages: is required", .param = "messages"};
  fields.pass_over({"tools", "tool_choice", "parallel_tool_calls", "documents",
                    "chat_template_kwargs", "add_generation_prompt", "continue_final_message"});
  fields.refuse("chat_template", "the model's own is used");
  try {
    return serving.chat.text(chat_value_of_json(exchange.request().body, "request"), "messages");
  } catch (const Error& error) {
    throw ApiError{.message = error.what(), .param = "messages"};
  }
}

// The images are decoded and the tower reads them between two steps of the others' texts.
static void answer_with_images(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
                               CompletionRequest request, std::vector<std::string> files) {
  struct Asked {
    CompletionRequest request;
    ImageReader reader;
    EngineLoop::Ticket ticket = 0;  // of the server's thread
  };
  const auto asked =
      std::make_shared<Asked>(Asked{std::move(request), ImageReader(serving, std::move(files))});
  const auto task = [&serving, exchange, asked](EngineLoop& loop) {
    try {
      asked->request.options.images = loop.images().run(
          asked->reader.images(),
          [&](std::int64_t number, std::span<float> to) { asked->reader.read(number, to); });
      answer_completions(serving, exchange, std::move(asked->request), true);
    } catch (const ApiError& error) {
      answer_error(*exchange, error);
    } catch (const std::exception& error) {
      answer_error(*exchange, {.status = 500, .message = error.what()});
    }
  };
  // First, since the task tells the exchange of what comes next.
  exchange->when_gone([&loop = serving.loop, asked] { loop.cancel(asked->ticket); });
  const auto ticket =
      serving.loop.submit(task, [exchange](const ApiError& why) { answer_error(*exchange, why); });
  if (!ticket)
    throw ApiError{.status = 429, .message = "too many requests wait", .code = "queue_full"};
  asked->ticket = *ticket;
}

static void read_calls(const Serving& serving, RequestFields& fields, CompletionRequest& request) {
  const Tools tools = read_tools(fields);
  if (!tools.may_call) return;
  request.calls = tool_form_of(serving.chat.source(true));
  if (!request.calls)
    throw ApiError{.message = "tools: the model's chat template has no form of calls that is known",
                   .param = "tools"};
  request.options.show_special = true;  // a mark of calls may be special
  if (tools.must_call.empty()) return;
  if (request.options.grammar)
    RequestFields::wrong("response_format", "text, where a tool must be called");
  request.options.grammar = serving.grammars.of_calls(tools, *request.calls);
}

void serve_chat(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  RequestFields fields(exchange->request().body);
  CompletionRequest request;
  request.model = fields.text("model").value_or("");
  request.prompts.emplace_back(chat_text(serving, *exchange, fields));
  CompletionOptions& o = request.options;
  o.has_own_tokens = true;
  o.sampling.seed = drawn_seed();
  read_sampling(fields, o);
  const std::optional<std::int64_t> older = fields.integer("max_tokens", 1, kMost),
                                    newer = fields.integer("max_completion_tokens", 1, kMost);
  o.num_tokens = newer ? *newer : older.value_or(kMost);
  request.clamps = true;
  request.n = request.best_of = fields.integer("n", 1, 128).value_or(1);
  const bool log_probs = fields.flag("logprobs").value_or(false);
  const std::optional<std::int64_t> top = fields.integer("top_logprobs", 0, 20);
  if (top && !log_probs)
    RequestFields::wrong("top_logprobs", "nothing, without \"logprobs\": true");
  if (log_probs) request.logprobs = o.logprobs = top.value_or(0);
  request.stream = read_stream_options(fields);
  request.prompt_logprobs = read_prompt_logprobs(fields, request.stream.stream);
  o.grammar = serving.grammars.of_response_format(fields);
  fields.refuse("modalities", "only text is answered", R"(["text"])");
  read_calls(serving, fields, request);
  fields.refuse("reasoning_effort", "give it in chat_template_kwargs, where the template knows it");
  check_unknown(serving, fields.unknown());
  adapter_of(serving, request.model);
  check_accepts(serving);
  if (std::vector<std::string> files = chat_images(serving, *exchange); !files.empty()) {
    if (request.prompt_logprobs)
      RequestFields::wrong("prompt_logprobs", "nothing, where messages have images");
    return answer_with_images(serving, exchange, std::move(request), std::move(files));
  }
  answer_completions(serving, exchange, std::move(request), true);
}

void serve_apply_template(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  RequestFields fields(exchange->request().body);
  adapter_of(serving, fields.text("model").value_or(""));
  const std::string text = chat_text(serving, *exchange, fields);
  check_unknown(serving, fields.unknown());
  JsonWriter json;
  exchange->answer(200, kJson, json.begin_object().member("prompt", text).end_object().text());
}

}  // namespace mt
