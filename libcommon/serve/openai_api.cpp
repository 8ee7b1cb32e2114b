// POST /v1/completions, /v1/chat/completions and /v1/responses, and /apply-template, which shows
// the text that a chat becomes.
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "infer/chat_prompts.h"
#include "infer/infill.h"
#include "serve/answer.h"
#include "serve/grammars.h"
#include "serve/response_request.h"
#include "serve/tools.h"
#include "text/put_in_front.h"

namespace mt {

static constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

// The prompts become those of texts that stand in front of the request's suffix.
static void put_in_middle(const Serving& serving, CompletionRequest& request) {
  std::optional<std::int32_t> end;
  for (PromptInput& prompt : request.prompts) {
    const auto* const before = std::get_if<std::string>(&prompt);
    if (before == nullptr) RequestFields::wrong("suffix", "nothing, behind token numbers");
    auto made = infill(serving.model.tokenizer, *before, *request.suffix);
    if (!made)
      throw ApiError{.message = "suffix: the tokenizer has no tokens to fill in the middle with",
                     .param = "suffix"};
    prompt = std::move(made->ids);
    end = made->end;
  }
  if (end && !request.options.ignore_eod) request.options.stop_tokens.push_back(*end);
}

void serve_completions(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  RequestFields fields(exchange->request().body);
  CompletionRequest request = read_completion_request(fields, drawn_seed());
  request.options.grammar = serving.grammars.of_request(fields);
  check_unknown(serving, fields.unknown());
  if (request.suffix) put_in_middle(serving, request);
  answer_completions(serving, exchange, std::move(request), false);
}

ChatValue chat_values(std::string_view body) {
  try {
    return chat_value_of_json(body, "request");
  } catch (const Error& error) {
    throw ApiError{.message = error.what()};
  }
}

// The request, whose template sees OpenAI's fields of this kind by their names.  A template that
// knows no such name would not do what they ask for, but for OpenAI's default.
static ChatValue with_efforts(const Serving& serving, ChatValue request, RequestFields& fields) {
  for (const char* const name : {"reasoning_effort", "verbosity"}) {
    const std::optional<std::string> effort = fields.text(name);
    if (!effort) continue;
    if (serving.chat.source(fields.any("tools").has_value()).find(name) == std::string_view::npos) {
      if (*effort == "medium") continue;
      throw ApiError{.message = concat(name, ": the model's chat template has none"),
                     .param = name};
    }
    const ChatValue* const given = request.find("chat_template_kwargs");
    ChatValue kwargs =
        given != nullptr && given->is_dict() ? *given : ChatValue::dict(ChatValue::Pairs());
    kwargs.set(name, *effort);
    request.set("chat_template_kwargs", kwargs);
  }
  return request;
}

std::string chat_text(const Serving& serving, const ChatValue& request, RequestFields& fields) {
  const auto messages = fields.any("messages");
  if (!messages) throw ApiError{.message = "messages: is required", .param = "messages"};
  if (simdjson::dom::array list; messages->get(list) == simdjson::SUCCESS && list.size() == 0)
    RequestFields::wrong("messages", "at least one");
  fields.pass_over({"tools", "tool_choice", "parallel_tool_calls", "documents",
                    "chat_template_kwargs", "add_generation_prompt", "continue_final_message"});
  fields.refuse("chat_template", "the model's own is used");
  try {
    return serving.chat.text(with_efforts(serving, request, fields), "messages");
  } catch (const Error& error) {
    throw ApiError{.message = error.what(), .param = "messages"};
  }
}

// A chat with images has its places from the beginning: its images are decoded beside what the loop
// does, and the tower reads one of them between two steps of the others' texts.
namespace {

struct ChatWithImages {
  const Serving& serving;
  std::shared_ptr<Exchange> exchange;
  CompletionRequest request;
  std::vector<std::string> files;
  ImageInputs images = {};
  std::shared_ptr<ImageStates> states = {};
  std::int64_t read = 0;  // of the tiles
  // Of each input, until the tower has read it.
  std::vector<WorkQueue::Held> held = {};

  void decode(const std::function<bool()>& ends) {
    images = image_inputs(serving, files, ends);
    files.clear();
    for (const std::vector<float>& input : images.inputs)
      held.push_back(serving.decoding.hold(input.size() * sizeof(float)));
  }

  // Whether there is another.
  bool turn(EngineLoop& loop) {
    try {
      ImagePass& tower = loop.images();
      if (!states) states = tower.begin(images.tiles);
      const auto number = static_cast<std::size_t>(read);
      tower.add(*states, read, images.inputs[number]);
      images.inputs[number] = {};
      held[number].reset();
      if (++read < std::ssize(images.inputs)) return true;
      request.options.images = std::move(states);
      request.of_task = true;
      answer_completions(serving, exchange, std::move(request), true);
    } catch (const ApiError& error) {
      answer_error(*exchange, error);
    } catch (const std::exception& error) {
      answer_error(*exchange, {.status = 500, .message = error.what()});
    }
    return false;
  }
};

}  // namespace

static void answer_with_images(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
                               CompletionRequest request, std::vector<std::string> files) {
  const std::size_t places = completions_of(serving, request);
  const auto chat = std::make_shared<ChatWithImages>(ChatWithImages{.serving = serving,
                                                                    .exchange = exchange,
                                                                    .request = std::move(request),
                                                                    .files = std::move(files)});
  submit_prepared(
      serving, exchange, [chat](EngineLoop& loop) { return chat->turn(loop); }, places,
      [chat](const std::function<bool()>& ends) { chat->decode(ends); });
}

// Whether the marks of thoughts are no text to the tokenizer.
static bool marks_thoughts_specially(const Tokenizer& tokenizer, ThoughtForm form) {
  if (form != ThoughtForm::think) return true;
  std::vector<std::int32_t> ids;
  encode_alone(tokenizer, "</think>", ids);
  return ids.size() == 1 && tokenizer.is_special(ids.front());
}

// How what the model says is read: calls where it may call, and its thoughts, unless a grammar
// leaves no place for them.
static void read_form(const Serving& serving, RequestFields& fields, CompletionRequest& request) {
  const Tools tools = read_tools(fields);
  const std::string_view chat_template = serving.chat.source(!tools.functions.empty());
  if (tools.may_call) {
    request.form = {.calls = tool_form_of(chat_template), .functions = tools.functions};
    if (!request.form.calls)
      throw ApiError{
          .message = "tools: the model's chat template has no form of calls that is known",
          .param = "tools"};
    if (!tools.must_call.empty()) {
      if (request.options.grammar)
        RequestFields::wrong("response_format", "text, where a tool must be called");
      request.options.grammar = serving.grammars.of_calls(tools, *request.form.calls);
    }
  }
  if (serving.thoughts_apart && !request.options.grammar)
    request.form.thoughts = thought_form_of(chat_template);
  // A mark of calls or thoughts may be special.
  if (request.form.calls ||
      (request.form.thoughts &&
       marks_thoughts_specially(serving.model.tokenizer, *request.form.thoughts)))
    request.options.show_special = true;
}

// response: of a request that came as one of /v1/responses, what its answer repeats.
static void serve_chat(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
                       std::string_view text, std::optional<std::string> response) {
  RequestFields fields(text);
  const ChatValue body = chat_values(text);
  CompletionRequest request;
  request.response = std::move(response);
  request.model = fields.text("model").value_or("");
  request.prompts.emplace_back(chat_text(serving, body, fields));
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
  o.grammar = serving.grammars.of_request(fields);
  fields.refuse("modalities", "only text is answered", {R"(["text"])"});
  for (const char* const name : {"audio", "web_search_options"})
    fields.refuse(name, "only text is answered, of what the messages say");
  for (const char* const name : {"functions", "function_call"})
    fields.refuse(name, "give tools and tool_choice");
  fields.refuse("echo", "the prompt is not told; /apply-template tells it", {"false"});
  fields.refuse("best_of", "chats have n alone", {"1"});
  read_form(serving, fields, request);
  check_unknown(serving, fields.unknown());
  adapter_of(serving, request.model);
  check_accepts(serving);
  if (std::vector<std::string> files = chat_images(serving, body); !files.empty()) {
    if (request.prompt_logprobs)
      RequestFields::wrong("prompt_logprobs", "nothing, where messages have images");
    return answer_with_images(serving, exchange, std::move(request), std::move(files));
  }
  answer_completions(serving, exchange, std::move(request), true);
}

void serve_chat(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  serve_chat(serving, exchange, exchange->request().body, std::nullopt);
}

void serve_responses(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  ResponseRequest request = read_response_request(exchange->request().body);
  serve_chat(serving, exchange, request.chat, std::move(request.told));
}

void serve_apply_template(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  RequestFields fields(exchange->request().body);
  adapter_of(serving, fields.text("model").value_or(""));
  const std::string text = chat_text(serving, chat_values(exchange->request().body), fields);
  check_unknown(serving, fields.unknown());
  JsonWriter json;
  exchange->answer(200, kJson, json.begin_object().member("prompt", text).end_object().text());
}

}  // namespace mt
