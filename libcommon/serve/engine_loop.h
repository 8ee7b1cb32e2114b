// EngineLoop: one thread that continues completions with an Engine, many at a time, for many who
// wait for theirs.  Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "infer/engine.h"
#include "infer/image_pass.h"
#include "infer/prompt_scores.h"
#include "infer/text_states.h"
#include "serve/api_error.h"
#include "serve/histogram.h"

namespace mt {

// How long a completion may wait for its first place, and how long all of it may take.
struct EngineTimes {
  using Duration = std::chrono::steady_clock::duration;
  Duration waits = Duration::max(), all = Duration::max();
};

class EngineLoop {
 public:
  // What the loop does for one who asks.  The loop's thread calls its functions, which return soon.
  struct Work {
    std::unique_ptr<Completion> completion;
    // How many alternatives each token of its prompt is scored with; none: it is not scored.
    std::optional<std::int64_t> prompt_alternatives = {};
    // Is told of each token, and at the end.
    std::function<void(Completion&)> made = {};
    // Is told instead of the end, if the model fails or the time is up.
    std::function<void(const ApiError& why)> failed = {};
    // Is told before the first token, where the prompt is scored: of each token but the first.
    std::function<void(std::vector<LogProbs>)> scored = {};
  };
  using Ticket = std::uint64_t;

  using Clock = std::chrono::steady_clock;
  // At most so many completions wait for others to end.
  EngineLoop(const Model& model, const EngineOptions& options, std::size_t most_waiting,
             const EngineTimes& times = {});
  EngineLoop(const EngineLoop&) = delete;
  ~EngineLoop();
  void stop();  // what is not finished is forgotten

  std::size_t most() const {  // completions that are taken at a time
    return most_waiting_ + static_cast<std::size_t>(options_.limits.max_requests);
  }
  std::int64_t max_tokens() const { return engine_.max_tokens(); }

  // Takes all of it, one ticket each, or, where the queue has no room for it, nothing.
  std::optional<std::vector<Ticket>> submit(std::vector<Work> work);
  // What the thread does for one who asks, in turns between its steps; each says whether there is
  // another.  One turn of one task is between two steps, and tasks take turns.
  using Task = std::function<bool(EngineLoop&)>;
  struct TaskOptions {
    // Is told instead of further turns, if the time is up.
    std::function<void(const ApiError& why)> failed = {};
    std::size_t places = 1;    // in the queue, that it has until its last turn ends
    bool ready = true;         // else its turns begin once ready() is called
    std::int64_t adapter = 0;  // of the model's, which its turns need; 0: none
    bool times_out = true;     // else it has its turns however long that takes
  };
  std::optional<Ticket> submit(Task task, TaskOptions options);
  void ready(Ticket task);
  // In a task's last turn: takes completions in its places, as many as these are.  All their time
  // began when the task came, and their waiting begins now.
  std::vector<Ticket> go_on(std::vector<Work> work);
  // For tasks: passes over texts, over images, and over so many sequences, which start anew with
  // each turn.
  TextStates& texts();
  ImagePass& images();  // of a LLaVA
  CachedPass& pass(std::int64_t sequences);
  const Model& model() const { return model_; }
  // In a task's turn: whether a completion, or another task, has this adapter.
  bool uses(std::int64_t adapter) const;
  // Nobody waits for it any more; what it is told meanwhile may still come.
  void cancel(Ticket ticket);
  // Cancels a task that is not ready yet; false where it does not wait any more: it has been told
  // by then why it failed, or was cancelled.
  bool withdraw(Ticket task);
  bool waits(Ticket task) const;  // for a turn

  struct State {
    std::size_t running = 0, waiting = 0;
    std::uint64_t prompt_tokens = 0, made_tokens = 0, finished = 0, cancelled = 0, timed_out = 0;
    std::uint64_t ended_by_length = 0;  // of those that finished
    Engine::Counts engine;
    // Seconds that completions take to their first token, between tokens, and to the end.
    Histogram first_token, between_tokens, whole;
  };
  State state() const;

 private:
  struct Taken {
    Work work;
    Clock::time_point came, waits_from, last;  // last: when its newest token did
    Engine::Ticket in_engine = 0;
    std::size_t told = 0;  // tokens
  };
  struct Turns {
    Task task;
    TaskOptions options;
    Ticket ticket = 0;
    Clock::time_point came = {};
    bool begun = false, went_on = false;  // completions have its places
    bool is_ready() const { return options.ready; }
  };
  EngineOptions with_failures(EngineOptions options);
  void run();
  bool take_off(Ticket task, Turns& taken);  // while mutex_ is locked
  void take_news();
  void do_task();
  void begin(Ticket ticket);
  void drop(Ticket ticket, const ApiError& why);
  void end_overdue();
  void end_overdue_tasks();
  void count(Taken& taken, bool ended);
  void tell();

  const Model& model_;
  EngineOptions options_;
  std::size_t most_waiting_;
  EngineTimes times_;
  // Of the thread:
  Engine engine_;
  std::unique_ptr<PromptScores> of_prompts_;  // these are made when first asked for
  std::unique_ptr<TextStates> of_texts_;
  std::unique_ptr<ImagePass> of_images_;
  std::unique_ptr<CachedPass> of_tasks_;
  std::map<Ticket, Taken> taken_, unscored_;  // unscored_: whose prompts are to be scored first
  std::vector<std::pair<Engine::Ticket, std::string>> failed_;
  Turns* turn_ = nullptr;  // while there is one

  mutable std::mutex mutex_;  // of the next
  std::condition_variable news_;
  std::vector<std::pair<Ticket, Taken>> submitted_;
  std::vector<Ticket> cancelled_;
  std::deque<Turns> tasks_;
  Ticket last_ = 0;
  std::size_t open_ = 0;  // submitted and not ended
  State state_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace mt
