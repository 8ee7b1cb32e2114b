#include "serve/engine_loop.h"

#include <utility>

#include "base/error.h"

namespace mt {

EngineLoop::EngineLoop(const Model& model, const EngineOptions& options, std::size_t most_waiting)
    : model_(model),
      options_(options),
      most_waiting_(most_waiting),
      engine_(model, options),
      thread_([this] { run(); }) {}

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
    if (open_ + work.size() > most_waiting_ + static_cast<std::size_t>(options_.max_requests) &&
        open_ > 0)
      return std::nullopt;
    open_ += work.size();
    for (Work& one : work) {
      tickets.push_back(++last_);
      state_.prompt_tokens += one.completion->ids().size();
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
  state.running = std::min(open_, static_cast<std::size_t>(options_.max_requests));
  state.waiting = open_ - state.running;
  return state;
}

// --- The thread ---------------------------------------------------------------------------------

void EngineLoop::run() {
  std::map<Ticket, Taken> taken;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (taken.empty()) news_.wait(lock, [&] { return ends_ || !submitted_.empty(); });
      if (ends_) return;
    }
    take_news(taken);
    try {
      engine_.step();
    } catch (const Error& error) {  // such as of logits that are no numbers: of all, or of one
      for (auto& [ticket, one] : taken) {
        engine_.cancel(one.in_engine);
        if (one.work.failed) one.work.failed(error.what());
      }
      const std::lock_guard lock(mutex_);
      open_ -= taken.size();
      taken.clear();
    }
    tell(taken);
  }
}

void EngineLoop::take_news(std::map<Ticket, Taken>& taken) {
  std::vector<std::pair<Ticket, Work>> submitted;
  std::vector<Ticket> cancelled;
  {
    const std::lock_guard lock(mutex_);
    submitted = std::exchange(submitted_, {});
    cancelled = std::exchange(cancelled_, {});
  }
  for (auto& [ticket, work] : submitted) begin(taken[ticket] = {.work = std::move(work)});
  for (const Ticket ticket : cancelled) {
    const auto found = taken.find(ticket);
    if (found == taken.end()) continue;  // it has ended
    engine_.cancel(found->second.in_engine);
    taken.erase(found);
    const std::lock_guard lock(mutex_);
    --open_;
    ++state_.cancelled;
  }
}

void EngineLoop::begin(Taken& taken) {
  Work& work = taken.work;
  if (work.prompt_alternatives) {
    if (!of_prompts_)
      of_prompts_ = std::make_unique<PromptScores>(model_, options_.vocab_size, options_.threads);
    work.scored(of_prompts_->score(work.completion->ids(),
                                   static_cast<std::size_t>(*work.prompt_alternatives)));
  }
  taken.in_engine = engine_.submit(*work.completion);
}

void EngineLoop::tell(std::map<Ticket, Taken>& taken) {
  for (auto one = taken.begin(); one != taken.end();) {
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
    one = ended ? taken.erase(one) : std::next(one);
  }
}

}  // namespace mt
