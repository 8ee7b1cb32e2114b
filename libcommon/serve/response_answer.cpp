// The answers of POST /v1/responses: items, one of what the model thinks, one of what it says and
// one of each call of a function; whole, or as a stream of events that build them up.
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "serve/answer.h"

namespace mt {
namespace {

class ResponseAnswer : public std::enable_shared_from_this<ResponseAnswer> {
 public:
  ResponseAnswer(const Serving& serving, std::shared_ptr<Exchange> exchange,
                 CompletionRequest request)
      : serving_(serving),
        exchange_(std::move(exchange)),
        request_(std::move(request)),
        id_(drawn_id("resp_")),
        created_(seconds_since_1970()),
        reader_(request_.form, std::get<std::string>(request_.prompts.front())) {}

  void begin() {
    EngineLoop::Work work;
    work.completion = make_completion(serving_, request_, 0, 0, true);
    prompt_tokens_ = std::ssize(work.completion->prompt());
    work.made = [self = shared_from_this()](Completion& completion) { self->made(completion); };
    work.failed = [self = shared_from_this()](const ApiError& why) { self->failed(why); };
    std::vector<EngineLoop::Work> all;
    all.push_back(std::move(work));
    if (request_.of_task)
      go_on(serving_, exchange_, std::move(all));
    else
      submit(serving_, exchange_, std::move(all));
  }

 private:
  enum class Kind : std::uint8_t { thought, message, call };
  struct Item {
    Kind kind;
    std::string id, text = {};  // the text of a call is its arguments
    std::string name = {}, call_id = {};
    bool done = false;
  };

  bool streams() const { return request_.stream.stream; }

  // What was made since the last time goes into items, the last of which may still grow.
  void made(Completion& completion) {
    if (failed_) return;
    const bool ended = completion.finish() != Completion::Finish::none;
    made_tokens_ = std::ssize(completion.made()) + (completion.end_token() ? 1 : 0);
    shared_tokens_ = completion.shared();
    ChatReader::Said said = reader_.take(completion.take(), ended);
    if (!said.thought.empty() || items_.empty()) thought_tokens_ = made_tokens_;
    if (streams() && !std::exchange(begun_, true)) {
      begin_events(*exchange_);
      tell_response("response.created", "in_progress");
      tell_response("response.in_progress", "in_progress");
    }
    if (!said.thought.empty()) add(Kind::thought, said.thought);
    if (!said.text.empty()) add(Kind::message, said.text);
    for (ToolCall& call : said.calls) add_call(std::move(call));
    if (!ended) return;
    if (items_.empty()) add(Kind::message, "");
    if (items_.front().kind != Kind::thought) thought_tokens_ = 0;
    close();
    const bool whole = completion.finish() == Completion::Finish::stop;
    const char* const status = whole ? "completed" : "incomplete";
    if (!streams()) return exchange_->answer(200, kJson, response_json(status));
    tell_response(concat("response.", status), status);
    exchange_->end_stream();
  }

  void failed(const ApiError& error) {
    if (std::exchange(failed_, true)) return;
    if (!begun_) return answer_error(*exchange_, error);
    send_event(*exchange_, error_json(error));
    exchange_->end_stream(false);
  }

  // --- Items -------------------------------------------------------------------------------------

  void add(Kind kind, const std::string& text) {
    const bool thought = kind == Kind::thought;
    if (items_.empty() || items_.back().done || items_.back().kind != kind) {
      close();
      items_.push_back({.kind = kind, .id = drawn_id(thought ? "rs_" : "msg_")});
      tell_item("response.output_item.added");
      tell_part("response.content_part.added");
    }
    items_.back().text += text;
    if (text.empty()) return;
    tell(thought ? "response.reasoning_text.delta" : "response.output_text.delta",
         [&](JsonWriter& json) {
           put_place(json);
           json.member("delta", text);
           if (!thought) json.key("logprobs").begin_array().end_array();
         });
  }

  void add_call(ToolCall call) {
    close();
    items_.push_back({.kind = Kind::call,
                      .id = drawn_id("fc_"),
                      .name = std::move(call.name),
                      .call_id = drawn_call_id(request_.form)});
    tell_item("response.output_item.added");
    items_.back().text = std::move(call.arguments);
    for (const bool whole : {false, true})
      tell(concat("response.function_call_arguments.", whole ? "done" : "delta"),
           [&](JsonWriter& json) {
             json.member("item_id", items_.back().id).member("output_index", items_.size() - 1);
             if (whole) json.member("name", items_.back().name);
             json.member(whole ? "arguments" : "delta", items_.back().text);
           });
    close();
  }

  // The last item gets nothing more.
  void close() {
    if (items_.empty() || std::exchange(items_.back().done, true)) return;
    if (const Kind kind = items_.back().kind; kind != Kind::call) {
      const bool thought = kind == Kind::thought;
      tell(thought ? "response.reasoning_text.done" : "response.output_text.done",
           [&](JsonWriter& json) {
             put_place(json);
             json.member("text", items_.back().text);
             if (!thought) json.key("logprobs").begin_array().end_array();
           });
      tell_part("response.content_part.done");
    }
    tell_item("response.output_item.done");
  }

  void put_place(JsonWriter& json) const {
    json.member("item_id", items_.back().id).member("output_index", items_.size() - 1);
    json.member("content_index", 0);
  }

  static void put_part(JsonWriter& json, const Item& item) {
    const bool thought = item.kind == Kind::thought;
    json.begin_object().member("type", thought ? "reasoning_text" : "output_text");
    json.member("text", item.text);
    if (!thought)
      for (const char* const name : {"annotations", "logprobs"})
        json.key(name).begin_array().end_array();
    json.end_object();
  }

  static void put_item(JsonWriter& json, const Item& item) {
    static constexpr const char* kTypes[] = {"reasoning", "message", "function_call"};
    json.begin_object().member("id", item.id);
    json.member("type", kTypes[static_cast<std::size_t>(item.kind)]);
    json.member("status", item.done ? "completed" : "in_progress");
    if (item.kind == Kind::call) {
      json.member("call_id", item.call_id).member("name", item.name);
      json.member("arguments", item.text).end_object();
      return;
    }
    if (item.kind == Kind::thought)
      json.key("summary").begin_array().end_array();
    else
      json.member("role", "assistant");
    json.key("content").begin_array();
    if (!item.text.empty() || item.done) put_part(json, item);
    json.end_array().end_object();
  }

  // --- Events ------------------------------------------------------------------------------------

  template <class Write>
  void tell(const std::string& type, const Write& write) {
    if (!streams()) return;
    JsonWriter json;
    json.begin_object().member("type", type).member("sequence_number", events_++);
    write(json);
    exchange_->send(concat("event: ", type, "\ndata: ", json.end_object().text(), "\n\n"));
  }
  void tell_response(const std::string& type, const char* status) {
    tell(type, [&](JsonWriter& json) { json.key("response").raw(response_json(status)); });
  }
  void tell_item(const char* type) {
    tell(type, [&](JsonWriter& json) {
      json.member("output_index", items_.size() - 1).key("item");
      put_item(json, items_.back());
    });
  }
  void tell_part(const char* type) {
    tell(type, [&](JsonWriter& json) {
      put_place(json);
      json.key("part");
      put_part(json, items_.back());
    });
  }

  std::string response_json(std::string_view status) const {
    JsonWriter json;
    json.begin_object().member("id", id_).member("object", "response");
    json.member("created_at", created_).member("status", status).key("error").null();
    json.key("incomplete_details");
    if (status == "incomplete")
      json.begin_object().member("reason", "max_output_tokens").end_object();
    else
      json.null();
    json.member("model", name_of(serving_, request_.options.adapter));
    json.member("background", false).member("store", false).key("previous_response_id").null();
    json.key("output").begin_array();
    const bool begins = status == "in_progress";
    for (const Item& item : items_)
      if (!begins) put_item(json, item);
    json.end_array().key("usage");
    if (begins) {
      json.null();
    } else {
      json.begin_object().member("input_tokens", prompt_tokens_).key("input_tokens_details");
      json.begin_object().member("cached_tokens", shared_tokens_).end_object();
      json.member("output_tokens", made_tokens_).key("output_tokens_details");
      json.begin_object().member("reasoning_tokens", thought_tokens_).end_object();
      json.member("total_tokens", prompt_tokens_ + made_tokens_).end_object();
    }
    const std::string own = json.end_object().text();
    return concat("{", *request_.response, own.substr(1));
  }

  const Serving& serving_;
  std::shared_ptr<Exchange> exchange_;
  CompletionRequest request_;
  std::string id_;
  std::int64_t created_;
  ChatReader reader_;
  std::vector<Item> items_;
  std::int64_t prompt_tokens_ = 0, shared_tokens_ = 0, made_tokens_ = 0, thought_tokens_ = 0;
  std::int64_t events_ = 0;
  bool begun_ = false, failed_ = false;
};

}  // namespace

void answer_response(const Serving& serving, const std::shared_ptr<Exchange>& exchange,
                     CompletionRequest request) {
  std::make_shared<ResponseAnswer>(serving, exchange, std::move(request))->begin();
}

}  // namespace mt
