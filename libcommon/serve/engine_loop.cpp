#include "serve/engine_loop.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace mt {

EngineLoop::EngineLoop(const Model& model, const EngineOptions& options, std::size_t most_waiting)
    : model_(model),
      options_(options),
      most_waiting_(most_waiting),
      engine_(model, with_failures(options)),
      thread_([this] { run(); }) {}

EngineOptions EngineLoop::with_failures(EngineOptions options) {
  options.failed = [this](Engine::Ticket ticket, const std::string& why) {
    failed_.emplace_back(ticket, why);
  };
  return options;
}

EngineLoop::~EngineLoop() { stop(); }

void EngineLoop::stop() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  news_.notify_all();
  if (thread_.joinable()) thread_.join();
  submitted_.clear();
}

std::optional<std::vector<EngineLoop::Ticket>> EngineLoop::submit(std::vector<Work> work) {
  std::vector<Ticket> tickets;
  {
    const std::lock_guard lock(mutex_);
    if (open_ + work.size() > most()) return std::nullopt;
    open_ += work.size();
    for (Work& one : work) {
      tickets.push_back(++last_);
      state_.prompt_tokens += one.completion->prompt().size();
      submitted_.emplace_back(last_, std::move(one));
    }
  }
  news_.notify_all();
  return tickets;
}

void EngineLoop::cancel(Ticket ticket) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(ticket);
  }
  news_.notify_all();
}

EngineLoop::State EngineLoop::state() const {
  const std::lock_guard lock(mutex_);
  State state = state_;
  state.running = std::min(open_, static_cast<std::size_t>(options_.limits.max_requests));
  state.waiting = open_ - state.running;
  return state;
}

// --- The thread ---------------------------------------------------------------------------------

void EngineLoop::run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (taken_.empty() && unscored_.empty())
        news_.wait(lock, [&] { return ends_ || !submitted_.empty(); });
      if (ends_) break;
    }
    take_news();
    try {
      engine_.step();
    } catch (const std::exception& error) {  // such as where there is no memory: all are told
      while (!taken_.empty()) drop(taken_.begin()->first, error.what());
    }
    tell();
  }
  taken_.clear();
  unscored_.clear();
}

// Of prompts that are to be scored one is, so that the others' tokens do not wait for all of them.
void EngineLoop::take_news() {
  std::vector<std::pair<Ticket, Work>> submitted;
  std::vector<Ticket> cancelled;
  {
    const std::lock_guard lock(mutex_);
    submitted = std::exchange(submitted_, {});
    cancelled = std::exchange(cancelled_, {});
  }
  for (auto& [ticket, work] : submitted)
    (work.prompt_alternatives ? unscored_ : taken_)[ticket].work = std::move(work);
  for (auto& [ticket, work] : submitted)
    if (const auto found = taken_.find(ticket); found != taken_.end()) begin(ticket);
  for (const Ticket ticket : cancelled) {
    const bool waits = unscored_.erase(ticket) > 0;
    if (const auto found = taken_.find(ticket); found != taken_.end()) {
      engine_.cancel(found->second.in_engine);
      taken_.erase(found);
    } else if (!waits) {
      continue;  // it has ended
    }
    const std::lock_guard lock(mutex_);
    --open_;
    ++state_.cancelled;
  }
  if (unscored_.empty()) return;
  const Ticket next = unscored_.begin()->first;
  taken_.insert(unscored_.extract(next));
  begin(next);
}

void EngineLoop::begin(Ticket ticket) {
  Taken& taken = taken_.at(ticket);
  Work& work = taken.work;
  try {
    if (work.prompt_alternatives) {
      if (!of_prompts_)
        of_prompts_ =
            std::make_unique<PromptScores>(model_, options_.vocab_size, options_.limits.threads);
      work.scored(of_prompts_->score(work.completion->ids(),
                                     static_cast<std::size_t>(*work.prompt_alternatives)));
    }
    taken.in_engine = engine_.submit(*work.completion);
  } catch (const std::exception& error) {
    drop(ticket, error.what());
  }
}

// It gets no more tokens, for this reason.
void EngineLoop::drop(Ticket ticket, const std::string& why) {
  const auto found = taken_.find(ticket);
  engine_.cancel(found->second.in_engine);
  if (found->second.work.failed) found->second.work.failed(why);
  taken_.erase(found);
  const std::lock_guard lock(mutex_);
  --open_;
}

void EngineLoop::tell() {
  for (const auto& [in_engine, why] : std::exchange(failed_, {})) {
    const auto found = std::ranges::find_if(
        taken_, [&](const auto& one) { return one.second.in_engine == in_engine; });
    if (found != taken_.end()) drop(found->first, why);
  }
  for (auto one = taken_.begin(); one != taken_.end();) {
    auto& [work, in_engine, told] = one->second;
    Completion& completion = *work.completion;
    const std::size_t made = completion.made().size();
    const bool ended = completion.finish() != Completion::Finish::none;
    if (made > told || ended) {
      const std::lock_guard lock(mutex_);
      state_.made_tokens += made - told;
      if (ended) {
        --open_;
        ++state_.finished;
      }
    }
    if ((made > told || ended) && work.made) work.made(completion);
    told = made;
    one = ended ? taken_.erase(one) : std::next(one);
  }
}

}  // namespace mt
