// POST /v1/load_lora_adapter and /v1/unload_lora_adapter: adapters that clients have the server
// load from a folder, and forget, in vLLM's words.
#include <filesystem>

#include "base/error.h"
#include "base/json_object.h"
#include "formats/peft/load_side_adapters.h"
#include "serve/request_fields.h"
#include "serve/serving.h"

namespace mt {

namespace fs = std::filesystem;

static constexpr const char *kName = "lora_name", *kPath = "lora_path", *kPlainText = "text/plain";

static const RuntimeAdapters& runtime_of(const Serving& serving) {
  const RuntimeAdapters& runtime = serving.adapters.runtime();
  if (runtime.folder.empty())
    throw ApiError{.status = 403,
                   .message = "adapters come and go with --allow-runtime-adapters alone"};
  return runtime;
}

static std::string required(RequestFields& fields, const char* name) {
  const std::optional<std::string> text = fields.text(name);
  if (!text || text->empty())
    throw ApiError{.message = concat(name, ": is required"), .param = name};
  return *text;
}

// The folder that a request names, which may be told from the folder of all.  It lies below that,
// wherever links to it lead; links of files in it are followed, as Hugging Face's caches have them.
// What lies elsewhere is refused as what is not there, so that nobody learns what is.
static std::string folder_in(const std::string& all, const std::string& asked) {
  std::error_code error;
  const fs::path root = fs::canonical(all, error),
                 path = error ? fs::path() : fs::canonical(root / asked, error);
  const auto [end, unused] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  if (error || end != root.end())
    throw ApiError{.status = 404,
                   .message = concat(kPath, ": there is no such folder below --adapter-dir"),
                   .param = kPath};
  return path.string();
}

static void check_new(const Serving& serving, const std::string& name) {
  if (name == serving.name || serving.adapters.find(name))
    throw ApiError{.message = concat(kName, ": ", json_quoted(name), " is there already"),
                   .param = kName};
}

namespace {

// What is wrong, by the client's names for the folder and for the model.
std::string said_to_client(std::string what, const std::string& folder, const std::string& asked,
                           const Serving& serving) {
  for (std::size_t at = 0; (at = what.find(folder, at)) != what.npos; at += asked.size())
    what.replace(at, folder.size(), asked);
  const std::string& load = serving.adapters.runtime().load;
  if (what.starts_with(load + ": ")) what.replace(0, load.size(), serving.name);
  return what;
}

// Numbers of adapters are not given again, since what is cached has them, and each takes memory.
constexpr std::int64_t kMostLoaded = 1 << 16;

// An adapter is read beside what the model says, and becomes one of the model's between two steps.
struct Loading {
  const Serving& serving;
  std::shared_ptr<Exchange> exchange;
  std::string name, asked, folder;
  ReadAdapter read = {};

  void begin() {
    const RuntimeAdapters& runtime = serving.adapters.runtime();
    try {
      read = read_side_adapter(*runtime.model, runtime.load, folder);
    } catch (const Error& error) {
      throw ApiError{.message = said_to_client(error.what(), folder, asked, serving),
                     .param = kPath};
    }
    if (read.rank > runtime.max_rank)
      throw ApiError{.message = concat("the adapter's rank is ", read.rank,
                                       ", expected at most --max-lora-rank ", runtime.max_rank),
                     .param = kPath};
    if (!runtime.model->adapters()->fits(read.products))
      throw ApiError{.message = "the adapter is of layers beside which there is no room for one",
                     .param = kPath};
  }

  void end() {
    try {
      check_new(serving, name);
      SideAdapters& adapters = *serving.adapters.runtime().model->adapters();
      if (adapters.count() >= kMostLoaded)
        throw ApiError{.status = 503,
                       .message = concat("the server has loaded ", kMostLoaded,
                                         " adapters, and takes more once it is started anew")};
      adapters.add(std::move(read.products), std::move(read.memory));
      const std::int64_t number = adapters.count();
      try {
        serving.adapters.add(number, name);
      } catch (const std::exception&) {
        adapters.remove(number);
        throw;
      }
      exchange->answer(200, kPlainText,
                       concat("Success: LoRA adapter '", name, "' added successfully."));
    } catch (const ApiError& error) {
      answer_error(*exchange, error);
    } catch (const std::exception& error) {  // such as where there is no memory
      answer_error(*exchange, {.status = 500, .message = error.what()});
    }
  }
};

}  // namespace

void serve_load_adapter(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  RequestFields fields(exchange->request().body);
  const RuntimeAdapters& runtime = runtime_of(serving);
  const std::string name = required(fields, kName), asked = required(fields, kPath);
  check_unknown(serving, fields.unknown());
  check_new(serving, name);
  const auto loading =
      std::make_shared<Loading>(Loading{.serving = serving,
                                        .exchange = exchange,
                                        .name = name,
                                        .asked = asked,
                                        .folder = folder_in(runtime.folder, asked)});
  const auto name_it = [loading](EngineLoop&) {
    loading->end();
    return false;
  };
  submit_prepared(serving, exchange, name_it, 1, [loading](const auto&) { loading->begin(); });
}

// From now on no request finds it; its memory is given back once none of those before has it.
void serve_unload_adapter(const Serving& serving, const std::shared_ptr<Exchange>& exchange) {
  RequestFields fields(exchange->request().body);
  const RuntimeAdapters& runtime = runtime_of(serving);
  const std::string name = required(fields, kName);
  fields.pass_over({"lora_int_id"});
  check_unknown(serving, fields.unknown());
  const std::optional<std::int64_t> adapter = serving.adapters.find(name);
  if (!adapter)
    throw ApiError{.status = 404,
                   .message = concat(kName, ": there is no adapter ", json_quoted(name)),
                   .param = kName};
  const auto forget = [model = runtime.model, number = *adapter](EngineLoop& loop) {
    if (loop.uses(number)) return true;
    model->adapters()->remove(number);
    return false;
  };
  check_accepts(serving);
  if (!serving.loop.submit(forget, {.places = 0, .times_out = false}))
    throw ApiError{.status = 429, .message = "too many requests wait", .code = "queue_full"};
  serving.adapters.remove(*adapter);
  exchange->answer(200, kPlainText,
                   concat("Success: LoRA adapter '", name, "' removed successfully."));
}

}  // namespace mt
