#include "eval/tasks/task_run.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "data/images/line_images.h"
#include "model/image_tiles.h"
#include "text/chat/chat_strings.h"
#include "text/put_in_front.h"

namespace mt {
namespace {

// Tokens that are scored together: enough to fill many batches with sequences of like length,
// little enough to report often; and texts that are made together.
constexpr std::size_t kTokens = 1 << 16, kTexts = 64;

// What stands before a text that has nothing before it.
std::int32_t first_token(const Tokenizer& tokenizer) {
  return tokenizer.bos() >= 0 ? tokenizer.bos() : tokenizer.eod();
}

std::vector<std::int32_t> encoded(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  const std::int32_t first = first_token(tokenizer);
  const std::string begin = tokenizer.decode({&first, 1});
  if (!begin.empty() && text.starts_with(begin))
    encode_alone(tokenizer, text, ids);
  else
    tokenizer.encode(text, ids);
  return ids;
}

void keep_last(std::vector<std::int32_t>& ids, std::int64_t count) {
  if (std::ssize(ids) > count) ids.erase(ids.begin(), ids.end() - count);
}

// What is asked of some documents, and the answers that are complete.
class Group {
 public:
  Group(const EvalTask& task, const EvalModel& model) : task_(task), model_(model) {}

  // `folder`: where its images are.
  void add(EvalItem item, std::string place, const std::string& folder) {
    EvalAnswer answer{.item = std::move(item)};
    if (task_.is_about_texts()) {
      images_.push_back({files_of(answer.item, place, folder), place});
      const std::vector<std::string>& files = images_.back().files;
      prompts_.push_back(prompt_of(answer.item.requests.front().context, files, place));
      check(prompts_.back(), place);
      if (model_.reads_images()) try {
          check_places(model_.tokenizer, model_.image_token,
                       std::ranges::count(prompts_.back(), model_.image_token), std::ssize(files));
        } catch (const Error& error) {
          fail(error.code(), place, ": ", error.what());
        }
    } else {
      for (const EvalRequest& request : answer.item.requests) {
        answer.tokens.push_back(
            task_.kind == EvalKind::rolling
                ? rolling_tokens_of(model_.tokenizer, request.context, model_.max_length)
                : std::vector<ScoredTokens>{
                      tokens_of(model_.tokenizer, request, model_.max_length)});
        std::size_t scored = 0;
        for (const ScoredTokens& tokens : answer.tokens.back()) {
          check(tokens.ids, place);
          if (tokens.scored >= tokens.ids.size())
            fail(Exit::bad_data, place, ": ", tokens.scored,
                 " tokens are to follow; the model takes at most ", model_.max_length);
          tokens_ += tokens.ids.size();
          scored += tokens.scored;
        }
        answer.token_log_probs.emplace_back(scored);
      }
    }
    answers_.push_back(std::move(answer));
    places_.push_back(std::move(place));
  }

  bool is_full() const { return tokens_ >= kTokens || prompts_.size() >= kTexts; }

  void answer(const std::function<void(const EvalAnswer&)>& answered) {
    if (task_.is_about_texts())
      make_texts();
    else
      score();
    for (const EvalAnswer& answer : answers_) answered(answer);
    answers_.clear();
    places_.clear();
    prompts_.clear();
    images_.clear();
    tokens_ = 0;
  }

 private:
  void check(std::span<const std::int32_t> ids, const std::string& place) const {
    for (const std::int32_t id : ids)
      if (id < 0 || id >= model_.vocab_size)
        fail(Exit::bad_data, place, ": token ", id, ", expected 0 to ", model_.vocab_size - 1);
  }

  // The files, which are named as they are found from the documents.
  std::vector<std::string> files_of(const EvalItem& item, const std::string& place,
                                    const std::string& folder) const {
    if (!item.images.empty() && !model_.reads_images())
      fail(Exit::bad_config, place, ": has images, and the model reads none");
    std::vector<std::string> files;
    for (const std::string& image : item.images) {
      files.push_back((std::filesystem::path(folder) / image).string());
      check_image_is_there(files.back(), place);
    }
    return files;
  }

  // Each image is one token of it, and takes the room of many.  A text that is too long loses its
  // beginning, unless there are images, whose places might be in it.
  std::vector<std::int32_t> prompt_of(const std::string& context,
                                      const std::vector<std::string>& images,
                                      const std::string& place) const {
    std::vector<std::int32_t> ids = encoded(model_.tokenizer, context);
    if (ids.empty()) ids.push_back(first_token(model_.tokenizer));
    std::int64_t of_images = 0;
    for (const std::string& image : images) try {
        of_images += model_.tokens_of_image(image) - 1;
      } catch (const Error& error) {
        fail(error.code(), place, ": ", error.what());
      }
    const std::int64_t most = model_.max_length - task_.generation.max_gen_toks;
    if (!images.empty() && std::ssize(ids) + of_images > most)
      fail(Exit::bad_data, place, ": ", std::ssize(ids) + of_images,
           " tokens with its images; the model takes ", most, " beside max_gen_toks");
    keep_last(ids, std::max<std::int64_t>(1, most - of_images));
    return ids;
  }

  void make_texts() {
    std::vector<std::vector<std::string>> texts =
        model_.generate(prompts_, images_, task_.generation, task_.repeats);
    for (std::size_t i = 0; i < answers_.size(); ++i) answers_[i].texts = std::move(texts[i]);
  }

  void score() {
    std::vector<std::span<const std::int32_t>> ids;
    std::vector<std::span<double>> nll;
    std::vector<std::vector<std::uint8_t>> likeliest;
    for (EvalAnswer& answer : answers_)
      for (std::size_t i = 0; i < answer.tokens.size(); ++i) {
        std::span<double> left(answer.token_log_probs[i]);
        for (const ScoredTokens& tokens : answer.tokens[i]) {
          ids.emplace_back(tokens.ids);
          nll.push_back(left.first(tokens.scored));
          left = left.subspan(tokens.scored);
          likeliest.emplace_back(tokens.scored);
        }
      }
    std::vector<std::span<std::uint8_t>> flags(likeliest.begin(), likeliest.end());
    if (task_.kind == EvalKind::rolling) flags.clear();
    model_.score(ids, nll, flags);
    auto flag = likeliest.begin();
    for (std::size_t k = 0; k < answers_.size(); ++k) {
      EvalAnswer& answer = answers_[k];
      for (std::size_t i = 0; i < answer.tokens.size(); ++i) {
        EvalResponse response{.greedy = true};
        for (double& value : answer.token_log_probs[i]) {
          value = -value;
          response.log_likelihood += value;
        }
        if (!std::isfinite(response.log_likelihood))
          fail(Exit::bad_data, places_[k], ": the model's probabilities are not numbers");
        for (std::size_t j = 0; j < answer.tokens[i].size(); ++j, ++flag)
          response.greedy = response.greedy && std::ranges::count(*flag, 0) == 0;
        answer.responses.push_back(response);
      }
    }
  }

  const EvalTask& task_;
  const EvalModel& model_;
  std::vector<EvalAnswer> answers_;
  std::vector<std::string> places_;
  std::vector<std::vector<std::int32_t>> prompts_;
  std::vector<EvalImages> images_;  // of each
  std::size_t tokens_ = 0;
};

}  // namespace

ScoredTokens tokens_of(const Tokenizer& tokenizer, const EvalRequest& request,
                       std::int64_t max_length) {
  ScoredTokens tokens;
  const std::string_view context = strip_text(request.context, Side::right);
  if (request.context.empty()) {
    encode_alone(tokenizer, request.continuation, tokens.ids);
    const std::int32_t first = first_token(tokenizer);
    if (tokens.ids.empty() || tokens.ids.front() != first)
      tokens.ids.insert(tokens.ids.begin(), first);
    tokens.scored = tokens.ids.size() - 1;
  } else {
    tokens.ids = encoded(tokenizer, request.context + request.continuation);
    const std::size_t before = encoded(tokenizer, context).size();
    tokens.scored = tokens.ids.size() - std::min(before, tokens.ids.size());
    if (tokens.scored == tokens.ids.size())  // nothing stands before it
      tokens.ids.insert(tokens.ids.begin(), first_token(tokenizer));
  }
  keep_last(tokens.ids, max_length + 1);
  return tokens;
}

std::vector<ScoredTokens> rolling_tokens_of(const Tokenizer& tokenizer, const std::string& text,
                                            std::int64_t max_length) {
  std::vector<std::int32_t> ids = encoded(tokenizer, text);
  ids.insert(ids.begin(), first_token(tokenizer));
  std::vector<ScoredTokens> windows;
  const auto count = std::ssize(ids) - 1;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t scored = std::min(max_length, count - done), end = done + scored + 1;
    const std::int64_t begin = std::max<std::int64_t>(0, end - max_length - 1);
    // All but the last begin with the token before what they score, and so does the first.
    windows.push_back({.ids = {ids.begin() + begin, ids.begin() + end},
                       .scored = static_cast<std::size_t>(scored)});
    done += scored;
  }
  return windows;
}

void run_task(const EvalTask& task, const EvalDocs& docs, std::size_t passed, TaskPrompts& prompts,
              const EvalModel& model, const std::function<void(const EvalItem&)>& pass,
              const std::function<void(const EvalAnswer&)>& answered) {
  Group group(task, model);
  for (std::size_t i = 0; i < docs.docs.size(); ++i) {
    EvalItem item = prompts.item(static_cast<std::int64_t>(i), docs.docs[i], docs.places[i]);
    if (i < passed) {
      pass(item);
      continue;
    }
    group.add(std::move(item), docs.places[i], docs.folders.empty() ? "" : docs.folders[i]);
    if (group.is_full()) group.answer(answered);
  }
  group.answer(answered);
}

}  // namespace mt
