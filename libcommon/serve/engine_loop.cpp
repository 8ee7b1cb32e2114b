#include "serve/engine_loop.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace mt {

EngineLoop::EngineLoop(const Model& model, const EngineOptions& options, std::size_t most_waiting,
                       const EngineTimes& times)
    : model_(model),
      options_(options),
      most_waiting_(most_waiting),
      times_(times),
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
  tasks_.clear();
}

std::optional<std::vector<EngineLoop::Ticket>> EngineLoop::submit(std::vector<Work> work) {
  std::vector<Ticket> tickets;
  {
    const std::lock_guard lock(mutex_);
    if (open_ + work.size() > most()) return std::nullopt;
    open_ += work.size();
    const Clock::time_point now = Clock::now();
    for (Work& one : work) {
      tickets.push_back(++last_);
      state_.prompt_tokens += one.completion->prompt().size();
      submitted_.emplace_back(
          last_, Taken{.work = std::move(one), .came = now, .waits_from = now, .last = {}});
    }
  }
  news_.notify_all();
  return tickets;
}

std::optional<EngineLoop::Ticket> EngineLoop::submit(Task task, TaskOptions options) {
  Ticket ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    if (open_ + options.places > most()) return std::nullopt;
    open_ += options.places;
    ticket = ++last_;
    tasks_.push_back({.task = std::move(task),
                      .options = std::move(options),
                      .ticket = ticket,
                      .came = Clock::now()});
  }
  news_.notify_all();
  return ticket;
}

void EngineLoop::ready(Ticket task) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = std::ranges::find(tasks_, task, &Turns::ticket); found != tasks_.end())
      found->options.ready = true;
  }
  news_.notify_all();
}

std::vector<EngineLoop::Ticket> EngineLoop::go_on(std::vector<Work> work) {
  std::vector<Ticket> tickets;
  const std::lock_guard lock(mutex_);
  open_ += work.size();
  open_ -= turn_->options.places;
  turn_->went_on = true;
  for (Work& one : work) {
    tickets.push_back(++last_);
    state_.prompt_tokens += one.completion->prompt().size();
    submitted_.emplace_back(
        last_,
        Taken{.work = std::move(one), .came = turn_->came, .waits_from = Clock::now(), .last = {}});
  }
  return tickets;
}

bool EngineLoop::take_off(Ticket task, Turns& taken) {
  const auto found = std::ranges::find(tasks_, task, &Turns::ticket);
  if (found == tasks_.end()) return false;
  taken = std::move(*found);
  tasks_.erase(found);
  open_ -= taken.options.places;
  ++state_.cancelled;
  return true;
}

bool EngineLoop::withdraw(Ticket task) {
  Turns left;  // ends behind the lock
  const std::lock_guard lock(mutex_);
  return take_off(task, left);
}

bool EngineLoop::waits(Ticket task) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::find(tasks_, task, &Turns::ticket) != tasks_.end();
}

void EngineLoop::cancel(Ticket ticket) {
  Turns left;  // ends behind the lock
  {
    const std::lock_guard lock(mutex_);
    if (take_off(ticket, left)) return;
    cancelled_.push_back(ticket);  // do_task() finds it where this is a task that has its turn
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
      const auto has_news = [&] {
        return ends_ || !submitted_.empty() || std::ranges::any_of(tasks_, &Turns::is_ready);
      };
      if (taken_.empty() && unscored_.empty()) {
        while (!has_news() && tasks_.empty()) news_.wait(lock);
        // The time of tasks that are not ready may be up meanwhile.
        news_.wait_for(lock, std::chrono::milliseconds(100), has_news);
      }
      if (ends_) break;
    }
    take_news();
    end_overdue_tasks();
    do_task();
    end_overdue();
    try {
      engine_.step();
    } catch (const std::exception& error) {  // such as where there is no memory: all are told
      while (!taken_.empty()) drop(taken_.begin()->first, {.status = 500, .message = error.what()});
    }
    tell();
    const std::lock_guard lock(mutex_);
    state_.engine = engine_.counts();
  }
  taken_.clear();
  unscored_.clear();
}

void EngineLoop::do_task() {
  Turns next;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(tasks_, &Turns::is_ready);
    if (found == tasks_.end()) return;
    next = std::move(*found);
    tasks_.erase(found);
  }
  next.begun = true;
  turn_ = &next;
  const bool has_more = next.task(*this);
  turn_ = nullptr;
  const std::lock_guard lock(mutex_);
  const bool is_cancelled = std::erase(cancelled_, next.ticket) > 0;
  if (has_more && !is_cancelled) return tasks_.push_back(std::move(next));
  if (has_more) ++state_.cancelled;
  if (!next.went_on) open_ -= next.options.places;
}

bool EngineLoop::uses(std::int64_t adapter) const {
  const auto has = [&](const auto& one) {
    return one.second.work.completion->adapter() == adapter;
  };
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(taken_, has) || std::ranges::any_of(unscored_, has) ||
         std::ranges::any_of(submitted_, has) ||
         std::ranges::any_of(tasks_,
                             [&](const Turns& turns) { return turns.options.adapter == adapter; });
}

TextStates& EngineLoop::texts() {
  if (!of_texts_) of_texts_ = std::make_unique<TextStates>(model_, options_.limits.threads);
  return *of_texts_;
}

ImagePass& EngineLoop::images() {
  if (!of_images_) of_images_ = std::make_unique<ImagePass>(model_, options_.limits.threads);
  return *of_images_;
}

CachedPass& EngineLoop::pass(std::int64_t sequences) {
  if (!of_tasks_ || of_tasks_->sequences() < sequences)
    of_tasks_ = std::make_unique<CachedPass>(
        model_, CachedPass::Options{.vocab_size = options_.vocab_size,
                                    .sequences = sequences,
                                    .threads = options_.limits.threads,
                                    .page_tokens = options_.page_tokens,
                                    .form = options_.limits.cache});
  return *of_tasks_;
}

// Of prompts that are to be scored one is, so that the others' tokens do not wait for all of them.
void EngineLoop::take_news() {
  std::vector<std::pair<Ticket, Taken>> submitted;
  std::vector<Ticket> cancelled;
  {
    const std::lock_guard lock(mutex_);
    submitted = std::exchange(submitted_, {});
    cancelled = std::exchange(cancelled_, {});
  }
  for (auto& [ticket, taken] : submitted)
    (taken.work.prompt_alternatives ? unscored_ : taken_)[ticket] = std::move(taken);
  for (auto& [ticket, taken] : submitted)
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
                                     static_cast<std::size_t>(*work.prompt_alternatives),
                                     work.completion->adapter()));
    }
    taken.in_engine = engine_.submit(*work.completion);
  } catch (const std::exception& error) {
    drop(ticket, {.status = 500, .message = error.what()});
  }
}

static const ApiError kTooLong{
    .status = 408, .message = "the request takes too long", .code = "deadline_exceeded"},
    kWaited{.status = 429, .message = "the request has waited too long", .code = "queue_timeout"};

// Those whose time is up, in the queue or altogether.
void EngineLoop::end_overdue() {
  const Clock::time_point now = Clock::now();
  std::vector<std::pair<Ticket, ApiError>> overdue;
  const auto look_at = [&](Ticket ticket, const Taken& taken, bool begun) {
    if (now - taken.came > times_.all)
      overdue.emplace_back(ticket, kTooLong);
    else if (now - taken.waits_from > times_.waits && (!begun || engine_.waits(taken.in_engine)))
      overdue.emplace_back(ticket, kWaited);
  };
  for (const auto& [ticket, taken] : taken_) look_at(ticket, taken, true);
  for (const auto& [ticket, taken] : unscored_) look_at(ticket, taken, false);
  for (const auto& [ticket, why] : overdue) drop(ticket, why);
  const std::lock_guard lock(mutex_);
  state_.timed_out += overdue.size();
}

void EngineLoop::end_overdue_tasks() {
  const Clock::time_point now = Clock::now();
  std::vector<Turns> overdue;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(tasks_, [&](Turns& one) {
      const bool late =
          one.options.times_out &&
          now - one.came > (one.begun ? times_.all : std::min(times_.waits, times_.all));
      if (late) overdue.push_back(std::move(one));
      return late;
    });
    for (const Turns& one : overdue) open_ -= one.options.places;
    state_.timed_out += overdue.size();
  }
  for (const Turns& one : overdue)
    if (one.options.failed) one.options.failed(now - one.came > times_.all ? kTooLong : kWaited);
}

// It gets no more tokens, for this reason.
void EngineLoop::drop(Ticket ticket, const ApiError& why) {
  auto dropped = taken_.extract(ticket);
  if (dropped)
    engine_.cancel(dropped.mapped().in_engine);
  else
    dropped = unscored_.extract(ticket);
  if (dropped.mapped().work.failed) dropped.mapped().work.failed(why);
  const std::lock_guard lock(mutex_);
  --open_;
}

void EngineLoop::tell() {
  for (const auto& [in_engine, why] : std::exchange(failed_, {})) {
    const auto found = std::ranges::find_if(
        taken_, [&](const auto& one) { return one.second.in_engine == in_engine; });
    if (found != taken_.end()) drop(found->first, {.status = 500, .message = why});
  }
  for (auto one = taken_.begin(); one != taken_.end();) {
    Taken& taken = one->second;
    Completion& completion = *taken.work.completion;
    const bool ended = completion.finish() != Completion::Finish::none;
    const bool has_news = completion.made().size() > taken.told || ended;
    if (has_news) count(taken, ended);
    if (has_news && taken.work.made) taken.work.made(completion);
    one = ended ? taken_.erase(one) : std::next(one);
  }
}

void EngineLoop::count(Taken& taken, bool ended) {
  const std::size_t made = taken.work.completion->made().size();
  const Clock::time_point now = Clock::now();
  const auto seconds = [&](Clock::time_point since) {
    return std::chrono::duration<double>(now - since).count();
  };
  const std::lock_guard lock(mutex_);
  if (made > taken.told) {
    if (taken.told == 0)
      state_.first_token.add(seconds(taken.came));
    else
      state_.between_tokens.add(seconds(taken.last));
    taken.last = now;
    state_.made_tokens += made - taken.told;
    taken.told = made;
  }
  if (!ended) return;
  state_.whole.add(seconds(taken.came));
  --open_;
  ++state_.finished;
  if (taken.work.completion->finish() == Completion::Finish::length) ++state_.ended_by_length;
}

}  // namespace mt
