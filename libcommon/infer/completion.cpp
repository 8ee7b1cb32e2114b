#include "infer/completion.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "text/put_in_front.h"

namespace mt {

void CompletionOptions::add_to(CommandLine& cl) {
  cl.section("Completion");
  cl.option("--num-tokens,--num-tokens-to-generate", &num_tokens, "N", "tokens to add at most",
            at_least(0));
  cl.option("--stop", &stop, "TEXT", "end before this text");
  cl.option("--stop-tokens", &stop_tokens, "ID", "end before any of these tokens", at_least(0));
  cl.flag("--ignore-eod", &ignore_eod, "go on behind the tokens that end a text");
  cl.flag("--begin-document", &begin_document,
          "put the token that ends a document in front of each prompt, as in training");
  cl.option("--logprobs", &logprobs, "N",
            "with --json, log-probabilities of each token and of the N likeliest", at_least(0));
  sampling.add_to(cl);
}

void CompletionOptions::check(std::int64_t tokens, std::string_view where) const {
  for (const std::int64_t id : stop_tokens)
    if (id >= tokens)
      fail(Exit::bad_config, where, ": stop token ", id, ": expected 0 to ", tokens - 1);
  if (logprobs.value_or(0) > tokens)
    fail(Exit::bad_config, where, ": log-probabilities of ", *logprobs, " tokens; the model knows ",
         tokens);
  if (stop && stop->empty()) fail(Exit::bad_config, where, ": the stop text is empty");
}

Completion::Completion(const CompletionModel& model, std::string_view prompt,
                       const CompletionOptions& options, std::uint32_t prompt_number,
                       std::uint32_t sample)
    : model_(model),
      options_(options),
      place_{.prompt = prompt_number, .sample = sample},
      decoder_(model.tokenizer.stream_decoder()) {
  const Tokenizer& tokenizer = model.tokenizer;
  if (options_.begin_document) ids_.push_back(tokenizer.eod());
  std::size_t in_front = ids_.size();
  if (options_.has_own_tokens)
    encode_alone(tokenizer, prompt, ids_);
  else
    tokenizer.encode(prompt, ids_);
  if (ids_.empty()) {
    ids_.push_back(tokenizer.bos() >= 0 ? tokenizer.bos() : tokenizer.eod());
    in_front = 1;
  }
  for (const std::int32_t id : ids_)
    if (id < 0 || id >= model.vocab_size)
      fail(Exit::bad_data, "token ", id, " of the prompt is none of the model's ",
           model.vocab_size);
  if (model.start_token) {
    read_ = std::exchange(ids_, {*model.start_token});
    options_.num_tokens = std::min(options_.num_tokens, model.decoder_positions);
  } else {
    show_prompt(in_front);
  }
  before_ = ids_.size();
  if (options_.num_tokens == 0) end(Finish::length);
}

// How a token is shown may depend on what is before it; what of the prompt comes late is dropped.
void Completion::show_prompt(std::size_t in_front) {
  const auto of_prompt = std::span(ids_).subspan(in_front);
  std::string shown;
  for (const std::int32_t id : of_prompt) decoder_->push(id, shown);
  of_prompt_ = model_.tokenizer.decode_text(of_prompt).size() - shown.size();
}

bool Completion::ends_at(std::int32_t token) const {
  const std::vector<std::int32_t>& ends = model_.end_tokens;
  const bool end =
      ends.empty() ? token == model_.tokenizer.eod() : std::ranges::find(ends, token) != ends.end();
  return (end && !options_.ignore_eod) ||
         std::ranges::find(options_.stop_tokens, token) != options_.stop_tokens.end();
}

void Completion::choose(std::span<const double> logits) {
  take_token(cpu::sample(logits, choice()), logits);
}

void Completion::take_token(std::int32_t token) {
  assert(!wants_log_probs());
  take_token(token, {});
}

void Completion::take_token(std::int32_t token, std::span<const double> logits) {
  ++place_.token;
  if (ends_at(token)) return end(Finish::stop);
  ids_.push_back(token);
  if (options_.logprobs)
    log_probs_.push_back(
        mt::log_probs(logits, token, static_cast<std::size_t>(*options_.logprobs)));
  const std::size_t before = text_.size();
  decoder_->push(token, text_);
  drop_prompt(before);
  if (cut_at_stop())
    finish_ = Finish::stop;  // what the decoder holds comes behind it
  else if (static_cast<std::int64_t>(made().size()) == options_.num_tokens)
    end(Finish::length);
}

// Cuts the text before the first stop text in it.
bool Completion::cut_at_stop() {
  if (!options_.stop) return false;
  const std::size_t at = text_.find(*options_.stop, searched_);
  if (at != std::string::npos) {
    text_.resize(at);
    return true;
  }
  // The next search begins where the end of the text may be the beginning of a stop text.
  const std::size_t longest = std::min(options_.stop->size() - 1, text_.size() - searched_);
  for (searched_ = text_.size() - longest; searched_ < text_.size(); ++searched_)
    if (options_.stop->starts_with(std::string_view(text_).substr(searched_))) break;
  return false;
}

void Completion::drop_prompt(std::size_t from) {
  const std::size_t dropped = std::min(of_prompt_, text_.size() - from);
  text_.erase(from, dropped);
  of_prompt_ -= dropped;
}

void Completion::end(Finish finish) {
  const std::size_t before = text_.size();
  decoder_->finish(text_);
  drop_prompt(before);
  finish_ = finish;
}

std::string_view Completion::take() {
  const std::size_t certain = finish_ == Finish::none && options_.stop ? searched_ : text_.size();
  const std::string_view part = std::string_view(text_).substr(taken_, certain - taken_);
  taken_ = certain;
  return part;
}

}  // namespace mt
