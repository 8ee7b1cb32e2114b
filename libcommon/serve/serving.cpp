#include "serve/serving.h"

#include <chrono>
#include <random>

#include "base/error.h"
#include "base/json_object.h"

namespace mt {

void answer_error(Exchange& exchange, const ApiError& error) {
  Exchange::Headers headers;
  if (error.status == 429 || error.status == 503) headers.emplace_back("Retry-After", "1");
  if (error.status == 401) headers.emplace_back("WWW-Authenticate", "Bearer");
  exchange.answer(error.status, kJson, error_json(error), std::move(headers));
}

void check_accepts(const Serving& serving) {
  if (serving.draining) throw ApiError{.status = 503, .message = "the server stops"};
}

bool fits(const Serving& serving, const Completion& completion, std::int64_t num_tokens) {
  const std::int64_t prompt = std::ssize(completion.prompt());
  const std::int64_t most = serving.loop.max_tokens();
  if (serving.model.start_token)
    return prompt <= most && num_tokens <= serving.model.decoder_positions;
  return prompt <= most && num_tokens <= most - prompt;
}

static void cancel_when_gone(const Serving& serving, Exchange& exchange,
                             std::vector<EngineLoop::Ticket> tickets) {
  exchange.when_gone([&loop = serving.loop, all = std::move(tickets)] {
    for (const EngineLoop::Ticket ticket : all) loop.cancel(ticket);
  });
}

static const ApiError kFull{
    .status = 429, .message = "too many requests wait", .code = "queue_full"};

void submit(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
            std::vector<EngineLoop::Work> work) {
  check_accepts(serving);
  auto tickets = serving.loop.submit(std::move(work));
  if (!tickets) throw kFull;
  cancel_when_gone(serving, *exchange, *std::move(tickets));
}

EngineLoop::Ticket submit(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
                          EngineLoop::Task task, EngineLoop::TaskOptions options) {
  check_accepts(serving);
  // The exchange is told first, since the task may tell it of what comes next.
  const auto mine = std::make_shared<EngineLoop::Ticket>();  // of the server's thread
  exchange->when_gone([&loop = serving.loop, mine] { loop.cancel(*mine); });
  const auto ticket = serving.loop.submit(std::move(task), std::move(options));
  if (!ticket) throw kFull;
  return *mine = *ticket;
}

void submit_prepared(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
                     EngineLoop::Task task, std::size_t places, Prepare prepare) {
  const EngineLoop::Ticket ticket =
      submit(serving, exchange, std::move(task),
             {.failed = [exchange](const ApiError& why) { answer_error(*exchange, why); },
              .places = places,
              .ready = false});
  const auto prepared = [&serving, exchange, ticket, prepare = std::move(prepare)] {
    const auto ends = [&] { return serving.decoding.ends() || !serving.loop.waits(ticket); };
    if (ends()) return;
    ApiError why{.status = 500, .message = {}};
    try {
      prepare(ends);
      return serving.loop.ready(ticket);
    } catch (const ApiError& error) {
      why = error;
    } catch (const std::exception& error) {  // such as where there is no memory
      why.message = error.what();
    }
    if (serving.loop.withdraw(ticket)) answer_error(*exchange, why);
  };
  try {
    serving.decoding.add(prepared);
  } catch (const std::exception&) {
    serving.loop.withdraw(ticket);
    throw;
  }
}

void go_on(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
           std::vector<EngineLoop::Work> work) {
  cancel_when_gone(serving, *exchange, serving.loop.go_on(std::move(work)));
}

void begin_events(Exchange& exchange) {
  exchange.begin_stream("text/event-stream; charset=utf-8",
                        {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}, ": ping\n\n");
}

void send_event(Exchange& exchange, std::string_view data) {
  exchange.send(concat("data: ", data, "\n\n"));
}

std::int64_t adapter_of(const Serving& serving, std::string_view name) {
  if (name.empty() || name == serving.name) return 0;
  if (const auto number = serving.adapters.find(name)) return *number;
  std::string known = json_quoted(serving.name);
  const std::vector<std::int64_t> adapters = serving.adapters.all();
  for (const std::int64_t adapter : adapters)
    known += ", " + json_quoted(serving.adapters.name(adapter));
  throw ApiError{.status = 404,
                 .message = concat("model: there is no \"", name, "\"; here ",
                                   adapters.empty() ? "is " : "are ", known),
                 .param = "model",
                 .code = "model_not_found"};
}

const std::string& name_of(const Serving& serving, std::int64_t adapter) {
  return adapter == 0 ? serving.name : serving.adapters.name(adapter);
}

void check_unknown(const Serving& serving, const std::vector<std::string>& fields) {
  for (const std::string& name : fields) {
    if (serving.strict_fields) throw ApiError{.message = name + ": unknown field", .param = name};
    serving.log.detail("a request has the unknown field " + name);
  }
}

std::int64_t seconds_since_1970() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

std::uint64_t drawn_seed() {
  static thread_local std::random_device device;
  const std::uint64_t high = device() >> 1;  // so that it is no negative number
  return high << 32 | device();
}

std::string drawn_id(const char* kind, int letters) {
  static constexpr std::string_view kLetters =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  static thread_local std::mt19937_64 random{std::random_device()()};
  std::string id = kind;
  for (int i = 0; i < letters; ++i) id += kLetters[random() % kLetters.size()];
  return id;
}

}  // namespace mt
