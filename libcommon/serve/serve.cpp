#include "serve/serve.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>

#include "base/activity.h"
#include "base/command.h"
#include "base/error.h"
#include "base/file.h"
#include "base/flag_list.h"
#include "base/http_client.h"
#include "base/json.h"
#include "base/large_pages.h"
#include "base/signals.h"
#include "formats/peft/load_side_adapters.h"
#include "infer/generate.h"
#include "serve/grammars.h"
#include "serve/page.h"
#include "serve/serving.h"

namespace mt {

static constexpr double kMostSeconds = 86400.0 * 365;  // a time that nanoseconds have room for
static constexpr std::size_t kMostDecoded = std::size_t{256} << 20;  // of images, before the tower

void ServeOptions::add_to(CommandLine& cl) {
  cl.section("Model");
  cl.option("--load", &load, "PATH", kLoadedModel);
  cl.required("--load");
  cl.option("--served-model-name", &name, "NAME", "what clients call it [name of PATH]");
  cl.option(
      "--adapter,--lora-modules", &adapters, "NAME=FOLDER",
      "adapters of the model, each for requests whose model is NAME: a folder of PEFT's, or of a "
      "run that trains one");
  cl.flag(
      "--allow-runtime-adapters", &allow_runtime_adapters,
      "who may ask may have further adapters loaded and any forgotten, those of --adapter, too, "
      "by POST /v1/load_lora_adapter and /v1/unload_lora_adapter");
  cl.option("--adapter-dir", &adapter_dir, "DIR", "below which such adapters are");
  cl.option("--max-lora-rank", &max_lora_rank, "N", "largest rank of such an adapter; default: 16",
            between(1, 1024));
  compute.add_to(cl, kDtypeAsStored);
  compute.add_dequantize_to(cl);
  tokenizer.add_to(cl);
  tokenizer.add_extra_ids_to(cl);
  add_vocab_size_to(cl, tokenizer);
  chat.add_to(cl);
  cl.section("Server");
  cl.option("--host", &host, "ADDRESS",
            "listen there; other than this machine's own only with --api-key-file");
  cl.option("--port", &port, "N", "listen on this port; 0: any free one", between(0, 65535));
  cl.option("--api-key-file", &api_key_file, "FILE",
            "a key a line, one of which requests must bring");
  limits.add_to(cl);
  cl.option("--draft-load", &draft_load, "PATH", kLoadedDraft);
  cl.option("--max-waiting", &max_waiting, "N",
            "completions that may wait; more requests get status 429", at_least(0));
  cl.option("--queue-timeout", &queue_timeout, "SECONDS",
            "for a completion to wait for its place; behind it the request gets status 429; 0: any",
            between(0, kMostSeconds));
  cl.option("--request-timeout", &request_timeout, "SECONDS",
            "for a whole request; behind it, it gets status 408; 0: any", between(0, kMostSeconds));
  cl.option("--cors-origin", &cors_origin, "ORIGIN",
            "pages of other servers whose scripts browsers let ask: https://HOST[:PORT], or *, of "
            "any; default: none");
  cl.option("--metrics-compat", &metrics_compat, "NAME",
            "vllm: GET /metrics tells what it can under vLLM's names, too",
            one_of({"none", "vllm"}));
  cl.option("--max-body", &max_body, "MIB", "largest body of a request", between(0, 4095));
  cl.option("--drain", &drain, "SECONDS", "for requests that are not answered when TERM comes",
            between(0, 86400));
  cl.option("--pooling", &pooling, "NAME",
            "what an embedding is of: the last token, the first (cls), or the mean of all",
            one_of({"last", "mean", "cls"}));
  cl.option("--reasoning-format", &reasoning_format, "NAME",
            "auto: what a chat's model thinks, in a form that its template speaks of, is "
            "reasoning_content and no content; none: it is content as all else",
            one_of({"auto", "none"}));
  cl.flag("--megatron-compat", &megatron_compat,
          "PUT /api says what is wrong with status 200, as Megatron-LM's server does");
  cl.flag("--strict-fields", &strict_fields, "refuse requests with fields that are not known");
  cl.flag("--clamp-max-tokens", &clamp_max_tokens,
          "generate less where max_tokens is more than the model has room for");
  launch.add_to(cl);
  imply(cl, "a prompt and its answer may have as many tokens as the model takes",
        {{"--seq-length", any(kInteger)}});
  imply(cl, "--inference-max-requests says how many run at a time",
        {{"--micro-batch-size", any(kInteger)}});
  imply(cl, "each request has a seed of its own", {{"--seed", any(kInteger)}});
}

namespace {

using Route = void (*)(const Serving&, const std::shared_ptr<Exchange>&);

void serve_page(const Serving&, const std::shared_ptr<Exchange>& exchange) {
  exchange->answer(200, "text/html; charset=utf-8", std::string(kPage),
                   {{"Content-Security-Policy",
                     "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                     "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                     "frame-ancestors 'none'"}});
}

void serve_health(const Serving&, const std::shared_ptr<Exchange>& exchange) {
  exchange->answer(200, kJson, R"({"status":"ok"})");
}

void serve_ready(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  check_accepts(serving);
  serve_health(serving, exchange);
}

void serve_version(const Serving&, const std::shared_ptr<Exchange>& exchange) {
  JsonWriter json;
  json.begin_object().member("version", version_text("mt-generate")).end_object();
  exchange->answer(200, kJson, json.text());
}

struct Entry {
  const char *method, *path;  // a path that ends in "/" stands for all that begin so
  bool open;                  // no key is asked for
  Route route;
};
constexpr Entry kRoutes[] = {
    {"GET", "/", true, serve_page},
    {"PUT", "/api", false, serve_megatron},
    {"POST", "/v1/completions", false, serve_completions},
    {"POST", "/completions", false, serve_completions},
    {"POST", "/v1/chat/completions", false, serve_chat},
    {"POST", "/chat/completions", false, serve_chat},
    {"POST", "/v1/responses", false, serve_responses},
    {"POST", "/responses", false, serve_responses},
    {"POST", "/v1/embeddings", false, serve_embeddings},
    {"POST", "/embeddings", false, serve_embeddings},
    {"POST", "/apply-template", false, serve_apply_template},
    {"POST", "/v1/load_lora_adapter", false, serve_load_adapter},
    {"POST", "/v1/unload_lora_adapter", false, serve_unload_adapter},
    {"GET", "/v1/models", false, serve_models},
    {"GET", "/v1/models/", false, serve_models},
    {"POST", "/tokenize", false, serve_tokenize},
    {"POST", "/detokenize", false, serve_detokenize},
    {"GET", "/tokenizer_info", false, serve_tokenizer_info},
    {"GET", "/health", true, serve_health},
    {"GET", "/v1/health", true, serve_health},
    {"GET", "/ready", true, serve_ready},
    {"GET", "/version", true, serve_version},
    {"GET", "/metrics", false, serve_metrics},
};

// Routes of other servers, and what does here what they do.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"/v1/messages", "/v1/chat/completions"}, {"/api/chat", "/v1/chat/completions"},
    {"/api/generate", "/v1/completions"},     {"/completion", "/v1/completions"},
    {"/generate", "/v1/completions"},         {"/embedding", "/v1/embeddings"}};

bool leads_to(const Entry& entry, std::string_view path) {
  const std::string_view of = entry.path;
  return of.size() > 1 && of.ends_with('/') ? path.starts_with(of) && path != of : path == of;
}

// As long for keys that begin alike as for others.
bool equal_keys(std::string_view a, std::string_view b) {
  unsigned differ = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    differ |= static_cast<unsigned char>(a[i] ^ (i < b.size() ? b[i] : 0));
  return differ == 0;
}

// What lets scripts of pages from elsewhere read an answer (the Fetch standard, CORS protocol).
Exchange::Headers cors_headers(const std::string& origin) {
  if (origin.empty()) return {};
  static constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyz0123456789+.-_:[]";
  const std::size_t scheme = origin.find("://");  // browsers write it in lower case
  if (origin != "*" && (scheme == origin.npos || scheme == 0 || scheme + 3 == origin.size() ||
                        origin.find_first_not_of(kLetters) != scheme + 1 ||
                        origin.find_first_not_of(kLetters, scheme + 3) != origin.npos))
    fail(Exit::usage, "--cors-origin ", origin,
         ": expected * or a scheme and a host in lower case, without a path, "
         "https://example.org say");
  return {{"Access-Control-Allow-Origin", origin},
          {"Access-Control-Expose-Headers", "Retry-After"}};
}

std::vector<std::string> read_keys(const ServeOptions& options) {
  std::vector<std::string> keys;
  if (!options.api_key_file.empty()) {
    std::string line;
    for (const char c : read_file(options.api_key_file) + "\n") {
      if (c != '\n' && c != '\r') {
        line += c;
      } else if (!line.empty()) {
        keys.push_back(std::exchange(line, ""));
      }
    }
    if (keys.empty()) fail(Exit::bad_data, options.api_key_file, ": has no key");
    for (const std::string& key : keys) check_api_key(options.api_key_file, key);
  }
  const bool own =
      options.host == "localhost" || options.host.starts_with("127.") || options.host == "::1";
  if (keys.empty() && !own)
    fail(Exit::usage, "--host ", options.host,
         ": others could use it; give --api-key-file, or listen on 127.0.0.1");
  return keys;
}

// Finds who answers a request.
class Router {
 public:
  // With `cors` browsers may ask what a page of elsewhere may send.
  Router(const Serving& serving, std::vector<std::string> keys, bool cors)
      : serving_(serving), keys_(std::move(keys)), cors_(cors) {}

  // Whether a request finds somebody who answers it and brings a key where one is needed.
  bool wants(const HttpRequest& request) const {
    try {
      if (!is_preflight(request)) check(request);
      return true;
    } catch (const ApiError&) {
      return false;
    } catch (const NotAllowed&) {
      return false;
    }
  }

  void operator()(const std::shared_ptr<Exchange>& exchange) const {
    const HttpRequest& request = exchange->request();
    serving_.log.detail(concat(request.peer, " ", request.method, " ", request.path));
    try {
      if (is_preflight(request)) return answer_preflight(*exchange);
      check(request).route(serving_, exchange);
    } catch (const ApiError& error) {
      answer_error(*exchange, error);
    } catch (const NotAllowed& error) {
      exchange->answer(405, kJson,
                       error_json({.status = 405,
                                   .message = concat(request.path, ": expected ", error.allowed)}),
                       {{"Allow", error.allowed}});
    } catch (const Error& error) {  // such as text that is none of the tokenizer's
      answer_error(*exchange,
                   {.status = error.code() == Exit::bad_data ? 400 : 500, .message = error.what()});
    } catch (const std::exception& error) {
      answer_error(*exchange, {.status = 500, .message = error.what()});
    }
  }

 private:
  struct NotAllowed {
    std::string allowed;
  };

  // What a browser asks in front of a request of such a page, without its key.
  bool is_preflight(const HttpRequest& request) const {
    return cors_ && request.method == "OPTIONS";
  }
  static void answer_preflight(Exchange& exchange) {
    std::string methods = methods_of(exchange.request().path);
    if (methods.empty()) throw no_route(exchange.request().path);
    exchange.answer(200, "text/plain", "",
                    {{"Access-Control-Allow-Methods", std::move(methods)},
                     {"Access-Control-Allow-Headers", "Authorization, *"},
                     {"Access-Control-Max-Age", "86400"}});
  }

  const Entry& check(const HttpRequest& request) const {
    const Entry& entry = entry_of(request);
    if (!entry.open) check_key(request);
    return entry;
  }

  static std::string methods_of(std::string_view path) {
    std::string methods;
    for (const Entry& entry : kRoutes)
      if (leads_to(entry, path))
        methods += concat(methods.empty() ? "" : ", ", entry.method,
                          std::string_view(entry.method) == "GET" ? ", HEAD" : "");
    return methods;
  }

  static ApiError no_route(const std::string& path) {
    const auto other =
        std::ranges::find(kElsewhere, path, [](const auto& pair) { return pair.first; });
    return {.status = 404,
            .message = concat(path, ": there is no such route",
                              other == std::end(kElsewhere) ? "" : "; ask ",
                              other == std::end(kElsewhere) ? "" : other->second)};
  }

  static const Entry& entry_of(const HttpRequest& request) {
    for (const Entry& entry : kRoutes)
      if (leads_to(entry, request.path) && request.method == entry.method) return entry;
    std::string methods = methods_of(request.path);
    if (methods.empty()) throw no_route(request.path);
    throw NotAllowed{std::move(methods)};
  }

  void check_key(const HttpRequest& request) const {
    if (keys_.empty()) return;
    constexpr std::string_view kBearer = "bearer ";  // in any case
    const std::string_view given = request.authorization;
    const bool is_bearer = std::ranges::equal(
        given.substr(0, kBearer.size()), kBearer, {},
        [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    bool known = false;
    for (const std::string& key : keys_)
      known |= equal_keys(key, given.substr(std::min(kBearer.size(), given.size())));
    if (!known || !is_bearer)
      throw ApiError{
          .status = 401, .message = "the API key is missing or wrong", .code = "invalid_api_key"};
  }

  const Serving& serving_;
  std::vector<std::string> keys_;
  bool cors_;
};

std::string name_of(const ServeOptions& options) {
  if (!options.name.empty()) return options.name;
  const std::filesystem::path path = std::filesystem::absolute(options.load).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// Adapters as clients call them, and where each lies.
struct NamedAdapters {
  std::vector<std::string> names, folders;
};

NamedAdapters adapters_of(const ServeOptions& options) {
  NamedAdapters all;
  for (const std::string& text : options.adapters) {
    const std::size_t at = text.find('=');
    if (at == text.npos || at == 0 || at + 1 == text.size())
      fail(Exit::usage, "--adapter ", text, ": expected NAME=FOLDER");
    const std::string name = text.substr(0, at);
    if (name == name_of(options) || std::ranges::find(all.names, name) != all.names.end())
      fail(Exit::usage, "--adapter ", text, ": ", name, " is the name of another");
    all.names.push_back(name);
    all.folders.push_back(text.substr(at + 1));
  }
  return all;
}

// The largest rank of adapters that clients have loaded; 0: they have none.
std::int64_t runtime_rank(const ServeOptions& options) {
  if (!options.allow_runtime_adapters) {
    for (const auto& [says, flag] : {std::pair{!options.adapter_dir.empty(), "--adapter-dir"},
                                     {options.max_lora_rank.has_value(), "--max-lora-rank"}})
      if (says) fail(Exit::usage, flag, ": has no effect without --allow-runtime-adapters");
    return 0;
  }
  if (options.adapter_dir.empty())
    fail(Exit::usage, "--allow-runtime-adapters: needs --adapter-dir");
  if (!std::filesystem::is_directory(options.adapter_dir))
    fail(Exit::no_input, "--adapter-dir ", options.adapter_dir, ": is no folder");
  return options.max_lora_rank.value_or(16);
}

Pooling pooling_of(const std::string& name) {
  if (name == "mean") return Pooling::mean;
  return name == "cls" ? Pooling::cls : Pooling::last;
}

EngineLoop::Clock::duration time_of(double seconds) {
  if (seconds == 0) return EngineLoop::Clock::duration::max();
  return std::chrono::duration_cast<EngineLoop::Clock::duration>(
      std::chrono::duration<double>(seconds));
}

// Without a template that can be followed chats alone are refused, unless it was asked for.
void check_chats(const ChatPrompts& chat, const Log& log) {
  try {
    chat.check();
  } catch (const Error& error) {
    if (chat.is_asked()) throw;
    log.warn(concat("chats get status 400: ", error.what()));
  }
}

std::string url_of(const std::string& host, int port) {
  const bool v6 = host.find(':') != std::string::npos;
  return concat("http://", v6 ? "[" : "", host, v6 ? "]:" : ":", port);
}

void tell_state(const EngineLoop& loop, const Log& log) {
  const EngineLoop::State state = loop.state();
  log.event("state",
            {{"what", "serving"},
             {"running", state.running},
             {"waiting", state.waiting},
             {"done", state.finished}},
            Log::Level::quiet);
}

// Answers what was asked before, for so many seconds, or until a signal comes again.
void drain(HttpServer& server, std::int64_t seconds, Signals& signals, const Log& log) {
  server.drain();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (!server.wait_idle(std::chrono::milliseconds(100))) {
    const bool again = signals.poll().has_value();
    if (!again && std::chrono::steady_clock::now() < until) continue;
    log.warn("requests are broken off");
    break;
  }
}

}  // namespace

void serve(const ServeOptions& options, Signals& signals, const Log& log) {
  const std::int64_t rank = runtime_rank(options);
  options.limits.check_draft(options.draft_load, !options.adapters.empty() || rank > 0);
  keep_large_pages_to_who_asks();  // so that what a server holds grows by what it uses alone
  std::vector<std::string> keys = read_keys(options);
  Exchange::Headers cors = cors_headers(options.cors_origin);
  const NamedAdapters adapters = adapters_of(options);
  const LoadedModel loaded = load_to_continue(options.load, options.tokenizer, options.compute,
                                              {.further_layers = options.limits.further_layers});
  loaded.tell([&](const std::string& note) { log.warn(note); });
  options.launch.check(loaded.model->config(), options.load);
  load_side_adapters(*loaded.model, options.load, adapters.folders, rank);
  const CompletionModel model = completion_model(loaded);
  const ChatPrompts chat(model.tokenizer, loaded.chat_files, loaded.path, options.chat,
                         model.llava != nullptr);
  check_chats(chat, log);
  const auto draft = load_draft(options.draft_load, loaded, options.tokenizer, options.compute);
  EngineLimits limits = options.limits;
  limits.cache = limits.kept.form(loaded);
  EngineLoop loop(
      *loaded.model,
      {.vocab_size = model.vocab_size,
       .limits = limits,
       .draft = draft ? draft->model.get() : nullptr},
      static_cast<std::size_t>(options.max_waiting),
      {.waits = time_of(options.queue_timeout), .all = time_of(options.request_timeout)});
  WorkQueue decoding(kMostDecoded);
  std::atomic<bool> draining = false;
  Grammars grammars(model);
  ServedAdapters served(adapters.names, {.model = loaded.model.get(),
                                         .load = options.load,
                                         .folder = options.adapter_dir,
                                         .max_rank = rank});
  const Serving serving{.model = model,
                        .chat = chat,
                        .grammars = grammars,
                        .draining = draining,
                        .loop = loop,
                        .decoding = decoding,
                        .log = log,
                        .name = name_of(options),
                        .adapters = served,
                        .created = seconds_since_1970(),
                        .pooling = pooling_of(options.pooling),
                        .megatron_compat = options.megatron_compat,
                        .strict_fields = options.strict_fields,
                        .clamp_max_tokens = options.clamp_max_tokens,
                        .thoughts_apart = options.reasoning_format == "auto",
                        .vllm_metrics = options.metrics_compat == "vllm"};
  HttpLimits http;
  http.body = static_cast<std::size_t>(options.max_body * (1 << 20));
  const Router router(serving, std::move(keys), !cors.empty());
  HttpServer server(
      options.host, static_cast<int>(options.port), http, router,
      [](int status, std::string_view text) {
        return error_json({.status = status, .message = std::string(text)});
      },
      [&](const HttpRequest& request) { return router.wants(request); }, std::move(cors));
  log.event("serving", {{"url", url_of(options.host, server.port())}, {"model", serving.name}});
  const Activity asked(log, [&] { tell_state(loop, log); });
  while (!signals.poll(std::chrono::seconds(1))) continue;
  draining = true;
  drain(server, options.drain, signals, log);
  server.stop();  // nobody asks the loop any more
  decoding.stop();
  loop.stop();  // nor does it answer
}

}  // namespace mt
