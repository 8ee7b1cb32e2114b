// Serving: what all routes of the server have in common, and how an answer is asked of the model.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "serve/api_error.h"
#include "serve/engine_loop.h"
#include "serve/http_server.h"
#include "serve/served_adapters.h"
#include "serve/work_queue.h"

namespace mt {

class ChatPrompts;
class ChatValue;
class RequestFields;
class Grammars;

struct Serving {
  const CompletionModel& model;
  const ChatPrompts& chat;
  Grammars& grammars;
  const std::atomic<bool>& draining;  // what comes now is not answered any more
  EngineLoop& loop;
  WorkQueue& decoding;  // of images, in the order in which they came
  const Log& log;
  std::string name;  // of the model, as clients know it
  ServedAdapters& adapters;
  std::int64_t created = 0;         // when it was loaded, in seconds since 1970
  Pooling pooling = Pooling::last;  // of embeddings
  bool megatron_compat = false, strict_fields = false, clamp_max_tokens = false;
  bool thoughts_apart = true;  // from what a chat answers
  bool vllm_metrics = false;
};

inline constexpr const char* kJson = "application/json";

void answer_error(Exchange& exchange, const ApiError& error);

// Whether the model has places for the prompt and so many tokens more.
bool fits(const Serving& serving, const Completion& completion, std::int64_t num_tokens);

void check_accepts(const Serving& serving);  // ApiError, 503, once it drains

// Hands work or a task to the loop, to be cancelled when the client leaves.  ApiError, 429, where
// too much waits already.
void submit(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
            std::vector<EngineLoop::Work> work);
EngineLoop::Ticket submit(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
                          EngineLoop::Task task, EngineLoop::TaskOptions options);
// Hands the loop a task whose turns begin once something is prepared for it, in the queue of
// `decoding`: of images that are decoded, say.  What `prepare` throws, ApiError or another, is the
// answer, and so is that the time is up.  It may end early, once `ends` says that nobody waits.
using Prepare = std::function<void(const std::function<bool()>& ends)>;
void submit_prepared(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
                     EngineLoop::Task task, std::size_t places, Prepare prepare);
// Hands the loop the work that a task of the exchange's goes on with, in its last turn.
void go_on(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
           std::vector<EngineLoop::Work> work);

// Server-sent events: an answer of `data:` lines.
void begin_events(Exchange& exchange);
void send_event(Exchange& exchange, std::string_view data);

// What a request means by the name of a model: 0, the model that is served, or one of its adapters,
// counted from 1; no name is the former.  ApiError, 404, for others.
std::int64_t adapter_of(const Serving& serving, std::string_view name);
const std::string& name_of(const Serving& serving, std::int64_t adapter);  // the reverse

// A request's members, as a chat's template sees them.
ChatValue chat_values(std::string_view body);
// The text that the model's template makes of a request's messages, and its fields that say how.
std::string chat_text(const Serving& serving, const ChatValue& request, RequestFields& fields);

// The files of the images of a request's messages, in their order: each is a data URL.  None where
// the model reads none.
std::vector<std::string> chat_images(const Serving& serving, const ChatValue& request);

// ImageInputs: what the images of one request are to the model: tiles (model/image_tiles.h), and of
// how many each image is.
struct ImageInputs {
  std::vector<std::vector<float>> inputs;
  std::vector<std::int64_t> tiles;
};
// ApiError for what is no image, for more pixels than a request may have, for one that is too long
// for its width, for more tokens than the model takes, and once ends() says that nobody waits for
// them.
ImageInputs image_inputs(const Serving& serving, const std::vector<std::string>& files,
                         const std::function<bool()>& ends);

// What becomes of fields that no route knows: they are named in the log, or refused.
void check_unknown(const Serving& serving, const std::vector<std::string>& fields);

std::int64_t seconds_since_1970();
std::uint64_t drawn_seed();                                // of a request that brings none
std::string drawn_id(const char* kind, int letters = 24);  // "cmpl-" and letters and digits

// The routes; each answers, now or later, or throws ApiError.
void serve_megatron(const Serving& serving, const std::shared_ptr<Exchange>& exchange);
void serve_completions(const Serving& serving, const std::shared_ptr<Exchange>& exchange);
void serve_chat(const Serving& serving, const std::shared_ptr<Exchange>& exchange);
void serve_responses(const Serving& serving, const std::shared_ptr<Exchange>& exchange);
void serve_embeddings(const Serving& serving, const std::shared_ptr<Exchange>& exchange);
void serve_apply_template(const Serving& serving, const std::shared_ptr<Exchange>& exchange);
void serve_models(const Serving& serving, const std::shared_ptr<Exchange>& exchange);
void serve_tokenize(const Serving& serving, const std::shared_ptr<Exchange>& exchange);
void serve_detokenize(const Serving& serving, const std::shared_ptr<Exchange>& exchange);
void serve_tokenizer_info(const Serving& serving, const std::shared_ptr<Exchange>& exchange);
void serve_load_adapter(const Serving& serving, const std::shared_ptr<Exchange>& exchange);
void serve_unload_adapter(const Serving& serving, const std::shared_ptr<Exchange>& exchange);
void serve_metrics(const Serving& serving, const std::shared_ptr<Exchange>& exchange);

}  // namespace mt
