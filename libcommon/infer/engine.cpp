#include "infer/engine.h"

#include <algorithm>
#include <cassert>

namespace mt {

Engine::Engine(const Model& model, const EngineOptions& options)
    : options_(options),
      pass_(model, {.vocab_size = options.vocab_size,
                    .sequences = options.max_requests,
                    .threads = options.threads}),
      active_(static_cast<std::size_t>(options.max_requests)) {}

bool Engine::full() const {
  const auto free = std::ranges::count(active_, nullptr, &Active::completion);
  return free <= std::ssize(waiting_);
}

Engine::Ticket Engine::submit(Completion& completion) {
  assert(!completion.prompt().empty() && std::ssize(completion.prompt()) <= max_tokens());
  const Ticket ticket = ++submitted_;
  if (completion.finish() == Completion::Finish::none)
    waiting_.push_back({.ticket = ticket, .completion = &completion});
  return ticket;
}

void Engine::cancel(Ticket ticket) {
  std::erase_if(waiting_, [&](const Active& waiting) { return waiting.ticket == ticket; });
  const auto found = std::ranges::find(active_, ticket, &Active::ticket);
  if (found != active_.end()) end(static_cast<std::size_t>(found - active_.begin()));
}

void Engine::end(std::size_t page) {
  active_[page] = {};
  pass_.start(static_cast<std::int64_t>(page));
}

// Pages are made for as many tokens as the longest that is admitted may come to, but no more than
// `most_ahead` behind its prompt.
void Engine::admit() {
  std::int64_t pages = 0, tokens = 0, read = 0;
  for (std::size_t page = 0; page < active_.size() && !waiting_.empty(); ++page) {
    if (active_[page].completion != nullptr) continue;
    active_[page] = waiting_.front();
    waiting_.pop_front();
    pages = static_cast<std::int64_t>(page) + 1;
    const Completion& completion = *active_[page].completion;
    const std::int64_t more =
        std::min({completion.tokens_left(), max_tokens(), options_.most_ahead});
    tokens = std::max(tokens, std::min(std::ssize(completion.ids()) + more, max_tokens()));
    read = std::max<std::int64_t>(read, std::ssize(completion.read()));
  }
  if (pages > 0) pass_.reserve(pages, tokens, read);
}

void Engine::choose(std::int64_t page, ConstTensor logits) {
  Active& active = active_[static_cast<std::size_t>(page)];
  logits_.resize(static_cast<std::size_t>(logits.numel()));
  with_float_type(logits.dtype(),
                  [&]<class T>() { std::ranges::copy(logits.span<T>(), logits_.begin()); });
  try {
    active.completion->choose(logits_);
  } catch (const Error& error) {  // such as of logits that are no numbers
    if (!options_.failed) throw;
    active.failed = true;
    options_.failed(active.ticket, error.what());
  }
}

void Engine::begin(std::int64_t page) {
  Completion& completion = *active_[static_cast<std::size_t>(page)].completion;
  const std::span<const std::int32_t> ids = completion.ids();
  const auto room = static_cast<std::size_t>(max_tokens());
  pass_.start(page);
  const auto seen = ids.size() <= room ? ids : ids.last(std::max<std::size_t>(1, room / 2));
  choose(page, pass_.next_logits(page, seen, completion.read()));
}

void Engine::go_on(std::span<const std::int64_t> pages) {
  std::vector<std::int32_t> ids;
  std::vector<Choice> choices;
  bool on_host = false;
  for (const std::int64_t page : pages) {
    const Completion& completion = *active_[static_cast<std::size_t>(page)].completion;
    ids.push_back(completion.ids().back());
    choices.push_back(completion.choice());
    on_host |= completion.wants_logits();
  }
  const auto completion = [&](std::size_t i) -> Completion& {
    return *active_[static_cast<std::size_t>(pages[i])].completion;
  };
  if (!on_host) {
    const std::span<const std::int32_t> tokens = pass_.next_tokens(pages, ids, choices);
    for (std::size_t i = 0; i < pages.size(); ++i) completion(i).take_token(tokens[i]);
    return;
  }
  const ConstTensor logits = pass_.next_logits(pages, ids);
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    choose(pages[i], logits.rows(row, row + 1));
  }
}

bool Engine::step() {
  admit();
  bool any = false;
  std::vector<std::int64_t> going_on;
  for (std::size_t page = 0; page < active_.size(); ++page) {
    Active& active = active_[page];
    if (active.completion == nullptr) continue;
    any = true;
    const auto number = static_cast<std::int64_t>(page);
    if (active.started && pass_.length(number) < max_tokens())
      going_on.push_back(number);
    else
      begin(number);
    active.started = true;
  }
  for (std::span<const std::int64_t> left(going_on); !left.empty();) {
    const std::size_t count =
        std::min(left.size(), static_cast<std::size_t>(CachedPass::kTogether));
    go_on(left.first(count));
    left = left.subspan(count);
  }
  for (std::size_t page = 0; page < active_.size(); ++page)
    if (const auto& [ticket, completion, started, failed] = active_[page];
        completion && (failed || completion->finish() != Completion::Finish::none))
      end(page);
  return any;
}

}  // namespace mt
