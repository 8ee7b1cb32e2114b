#include "infer/completion.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <utility>

#include "infer/image_pass.h"
#include "model/config/model_config.h"
#include "model/image_tiles.h"
#include "text/put_in_front.h"

namespace mt {

void CompletionOptions::check(std::int64_t tokens, std::string_view where) const {
  for (const std::int64_t id : stop_tokens)
    if (id >= tokens)
      fail(Exit::bad_config, where, ": stop token ", id, ": expected 0 to ", tokens - 1);
  if (logprobs.value_or(0) > tokens)
    fail(Exit::bad_config, where, ": log-probabilities of ", *logprobs, " tokens; the model knows ",
         tokens);
  if (rules.min_tokens > num_tokens)
    fail(Exit::bad_config, where, ": at least ", rules.min_tokens,
         " tokens are to be added, and at most ", num_tokens);
  if (std::ranges::count(stop, "") > 0) fail(Exit::bad_config, where, ": the stop text is empty");
  for (const auto& [id, bias] : rules.bias)
    if (id < 0 || id >= tokens)
      fail(Exit::bad_config, where, ": a bias of token ", id, ": expected 0 to ", tokens - 1);
}

Completion::Completion(const CompletionModel& model, const CompletionOptions& options,
                       TokenPlace place)
    : model_(model),
      options_(options),
      choice_{options.sampling, place, options.scored ? 1U : 0U},
      decoder_(model.tokenizer.stream_decoder()) {
  if (options_.grammar) match_ = std::make_unique<GrammarMatch>(options_.grammar);
  if (!options_.ignore_eod) {
    ends_ = model.end_tokens;
    if (ends_.empty()) ends_.push_back(model.tokenizer.eod());
  }
  ends_.insert(ends_.end(), options_.stop_tokens.begin(), options_.stop_tokens.end());
  if (options_.begin_document) ids_.push_back(model.tokenizer.eod());
  in_front_ = ids_.size();
}

Completion::Completion(const CompletionModel& model, std::string_view prompt,
                       const CompletionOptions& options, std::uint32_t prompt_number,
                       std::uint32_t sample)
    : Completion(model, options, {.prompt = prompt_number, .sample = sample}) {
  const Tokenizer& tokenizer = model.tokenizer;
  if (options_.has_own_tokens)
    encode_alone(tokenizer, prompt, ids_);
  else
    tokenizer.encode(prompt, ids_);
  if (ids_.empty()) {
    ids_.push_back(tokenizer.bos() >= 0 ? tokenizer.bos() : tokenizer.eod());
    in_front_ = 1;
  }
  begin();
}

Completion::Completion(const CompletionModel& model, std::vector<std::int32_t> prompt,
                       const CompletionOptions& options, std::uint32_t prompt_number,
                       std::uint32_t sample)
    : Completion(model, options, {.prompt = prompt_number, .sample = sample}) {
  ids_.insert(ids_.end(), prompt.begin(), prompt.end());
  begin();
}

void Completion::place_images() {
  const ModelConfig& c = *model_.llava;
  const std::vector<std::int64_t> none, &tiles = options_.images ? options_.images->tiles : none;
  const auto token = static_cast<std::int32_t>(c.image_token_index);
  const std::int64_t places = std::ranges::count(ids_, token);
  std::int64_t all_places = 0;
  for (const std::int64_t of_image : tiles) all_places += of_image * tokens_of_tile(c);
  if (places != all_places) check_places(model_.tokenizer, token, places, std::ssize(tiles));
  if (tiles.empty()) return;
  if (places == std::ssize(tiles)) {
    const ImageWords words(c, model_.tokenizer);
    auto of_image = tiles.begin();
    for (const std::int32_t id : std::exchange(ids_, {}))
      if (id == token)
        words.add(ids_, *of_image++);
      else
        ids_.push_back(id);
  }
  image_rows_ = mt::image_rows(c, ids_);
}

void Completion::begin() {
  if (model_.llava != nullptr) place_images();
  for (const std::int32_t id : ids_)
    if (id < 0 || id >= model_.vocab_size)
      fail(Exit::bad_data, "token ", id, " of the prompt is none of the model's ",
           model_.vocab_size);
  if (model_.start_token) {
    read_ = std::exchange(ids_, {*model_.start_token});
    options_.num_tokens = std::min(options_.num_tokens, model_.decoder_positions);
  } else {
    show_prompt();
  }
  before_ = ids_.size();
  if (options_.num_tokens == 0) end(Finish::length);
}

// How a token is shown may depend on what is before it; what of the prompt comes late is dropped.
void Completion::show_prompt() {
  const auto of_prompt = std::span(ids_).subspan(in_front_);
  std::string shown;
  for (const std::int32_t id : of_prompt) decoder_->push(id, shown);
  of_prompt_ = model_.tokenizer.decode_text(of_prompt).size() - shown.size();
}

bool Completion::is_last(std::int32_t token) const {
  const auto size = static_cast<std::size_t>(std::ssize(ids_));
  return std::ranges::count(options_.last_tokens, token) > 0 ||
         (token == options_.last_pair && size > 1 && ids_[size - 2] == token);
}

void Completion::choose(SharedLogits& of_logits) {
  const std::span<const double> logits = of_logits.all();
  const auto take = [&](std::int32_t token) {
    const double score =
        options_.scored ? score_of(logits, token, options_.sampling.temperature, *options_.scored)
                        : 0;
    take_token(token, logits, score);
  };
  if (!options_.rules.any() && !match_) return take(of_logits.sample(choice()));
  std::vector<double> changed(logits.begin(), logits.end());
  if (match_) forbid_unfit(changed);
  options_.rules.apply(changed, ids_, before_, ends_, options_.sampling.temperature);
  take(cpu::sample(changed, choice()));
}

// Ends may come where the text may end.
void Completion::forbid_unfit(std::span<double> logits) {
  const TokenMask allowed = match_->allowed();
  const bool may_end = match_->whole();
  for (std::size_t id = 0; id < logits.size(); ++id)
    if (!allowed.has(id) &&
        !(may_end && std::ranges::count(ends_, static_cast<std::int32_t>(id)) > 0))
      logits[id] = -std::numeric_limits<double>::infinity();
}

void Completion::take_token(std::int32_t token, double score) {
  assert(!wants_logits(true));
  take_token(token, {}, score);
}

void Completion::take_token(std::int32_t token, std::span<const double> logits, double score) {
  choice_ = choice_behind();
  if (options_.logprobs)
    log_probs_.push_back(
        mt::log_probs(logits, token, static_cast<std::size_t>(*options_.logprobs)));
  if (options_.scored) scores_.push_back(score);
  if (std::ranges::count(ends_, token) > 0) {
    end_token_ = token;
    return end(Finish::stop);
  }
  ids_.push_back(token);
  if (!image_rows_.empty()) image_rows_.push_back(-1);
  if (match_) match_->take(token);
  if (options_.show_special || !model_.tokenizer.is_special(token)) {
    const std::size_t before = text_.size();
    decoder_->push(token, text_);
    drop_prompt(before);
  }
  if (cut_at_stop())
    finish_ = Finish::stop;  // what the decoder holds comes behind it
  else if (is_last(token) || (match_ && match_->ends()))
    end(Finish::stop);
  else if (static_cast<std::int64_t>(made().size()) == options_.num_tokens)
    end(Finish::length);
}

// Cuts the text before the first stop text in it, or behind it; of those that begin together the
// longest counts.
bool Completion::cut_at_stop() {
  std::size_t first = std::string::npos, size = 0;
  for (const std::string& stop : options_.stop) {
    const std::size_t at = text_.find(stop, searched_);
    if (at < first || (at == first && stop.size() > size)) {
      first = at;
      size = stop.size();
    }
  }
  if (first != std::string::npos) {
    text_.resize(options_.include_stop ? first + size : first);
    return true;
  }
  // The next search begins where the end of the text may be the beginning of a stop text.
  std::size_t next = text_.size();
  for (const std::string& stop : options_.stop)
    for (std::size_t at = text_.size() - std::min(stop.size() - 1, text_.size() - searched_);
         at < next; ++at)
      if (stop.starts_with(std::string_view(text_).substr(at))) next = at;
  searched_ = next;
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
  const std::size_t certain =
      finish_ == Finish::none && !options_.stop.empty() ? searched_ : text_.size();
  const std::string_view part = std::string_view(text_).substr(taken_, certain - taken_);
  taken_ = certain;
  return part;
}

}  // namespace mt
