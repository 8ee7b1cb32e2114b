#include "infer/session.h"

#include <simdjson.h>

#include <exception>
#include <utility>

#include "base/json.h"
#include "image/orientation.h"
#include "infer/token_json.h"
#include "model/config/model_config.h"

namespace mt {

using Finish = Completion::Finish;

// --- JSON ---------------------------------------------------------------------------------------

void Session::print_json(const Answer& answer) const {
  const auto& [prompt, sample, completion, begun, retrieved] = answer;
  JsonWriter json;
  json.begin_object().member("schema", "mt-generate/1").member("prompt", prompt.text);
  if (prompt.num_samples > 1) json.member("sample", sample);
  json.member("text", completion.text())
      .member("tokens", completion.made().size())
      .member("finish_reason", completion.finish() == Finish::stop ? "stop" : "length")
      .key("token_ids")
      .begin_array();
  for (const std::int32_t id : completion.made()) json.value(id);
  json.end_array();
  if (prompt.options.logprobs)
    write_log_probs(json.key("logprobs"), model_.tokenizer, completion.made(),
                    completion.log_probs());
  if (!retrieved.empty()) {
    json.key("retrieved").begin_array();
    for (const std::vector<std::int64_t>& chunks : retrieved) {
      json.begin_array();
      for (const std::int64_t chunk : chunks) json.value(chunk);
      json.end_array();
    }
    json.end_array();
  }
  for (const auto& [key, value] : prompt.others)
    if (key != "retrieved" || retrieved.empty()) json.key(key).raw(value);
  json.end_object();
  print_(json.text() + "\n");
}

// The texts of a prompt's member "neighbors".
static std::vector<std::string> neighbors_of(const Prompt& prompt) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : prompt.others) {
    if (key != "neighbors") continue;
    simdjson::dom::parser parser;
    simdjson::dom::array list;
    bool good = parser.parse(value).get(list) == simdjson::SUCCESS;
    if (good)
      for (const simdjson::dom::element element : list) {
        std::string_view text;
        good &= element.get(text) == simdjson::SUCCESS;
        texts.emplace_back(text);
      }
    if (!good) fail(Exit::bad_data, "\"neighbors\": expected a list of strings");
  }
  return texts;
}

// --- The loop -----------------------------------------------------------------------------------

Session::Session(const Model& model, const CompletionModel& about, PromptReader& reader,
                 const SessionOptions& options, Print print)
    : json_(options.json),
      print_(std::move(print)),
      answered_(options.answered),
      reader_(reader),
      model_(about) {
  if (model.config().family == ModelFamily::retro)
    retro_ = std::make_unique<RetroEngine>(model, about, options.limits.threads, options.neighbors,
                                           options.retrieves);
  else
    engine_ = std::make_unique<Engine>(model, EngineOptions{.vocab_size = about.vocab_size,
                                                            .limits = options.limits,
                                                            .draft = options.draft});
  if (about.llava != nullptr) images_ = std::make_unique<ImagePass>(model, options.limits.threads);
}

bool Session::full() const { return retro_ ? retro_->busy() : engine_->full(); }

std::int64_t Session::max_tokens() const {
  return retro_ ? retro_->max_tokens() : engine_->max_tokens();
}

void Session::submit(Answer& answer) {
  if (retro_)
    retro_->start(answer.completion, neighbors_of(answer.prompt), answer.retrieved);
  else
    engine_->submit(answer.completion);
}

void Session::step() {
  if (!retro_)
    engine_->step();
  else if (retro_->busy())
    retro_->step();
}

void Session::run() {
  std::exception_ptr wrong;
  for (;;) {
    try {
      while (!wrong && !full() && admit()) continue;
    } catch (const Error&) {
      wrong = std::current_exception();
    }
    if (answers_.empty()) break;
    step();
    print_made();
  }
  if (wrong) std::rethrow_exception(wrong);
}

void Session::read_images() {
  if (prompt_->images.empty()) return;
  std::vector<Image> images;
  for (const std::string& path : prompt_->images) try {
      images.push_back(read_upright({.path = path}));
    } catch (const Error& error) {
      fail(error.code(), prompt_->place, ": ", error.what());
    }
  prompt_->options.images = images_->run(images);
}

// Takes a completion more; false if there is none, or none yet.  Only waits for a prompt when idle.
bool Session::admit() {
  if (!prompt_ || sample_ == prompt_->num_samples) {
    prompt_ = reader_.next(answers_.empty());
    if (!prompt_) return false;
    sample_ = 0;
    ++prompts_;
    read_images();
    prompt_->options.check(model_.vocab_size, prompt_->place);
    if (prompt_->options.logprobs && !json_)
      fail(Exit::usage, prompt_->place, ": logprobs: needs --json");
  }
  try {
    Completion completion(model_, prompt_->text, prompt_->options, prompts_ - 1,
                          static_cast<std::uint32_t>(sample_));
    if (const auto tokens = std::ssize(completion.prompt()); tokens > max_tokens())
      fail(Exit::bad_data, tokens, " tokens; the model takes at most ", max_tokens());
    answers_.push_back({*prompt_, sample_++, std::move(completion)});
    try {
      submit(answers_.back());
    } catch (const Error&) {
      answers_.pop_back();
      throw;
    }
  } catch (const Error& error) {
    const Prompt wrong = *std::exchange(prompt_, {});
    fail(error.code(), wrong.place, ": ", error.what());
  }
  return true;
}

// Prints what the first completion has made so far, and all that are finished up to one that is
// not.
void Session::print_made() {
  for (; !answers_.empty(); answers_.pop_front()) {
    Answer& answer = answers_.front();
    const bool finished = answer.completion.finish() != Finish::none;
    if (json_ && finished) print_json(answer);
    if (!json_) {
      if (!answer.begun && !model_.start_token) print_(answer.prompt.text);
      answer.begun = true;
      print_(answer.completion.take());
      if (finished) print_("\n");
    }
    if (!finished) return;
    answered_();
  }
}

}  // namespace mt
