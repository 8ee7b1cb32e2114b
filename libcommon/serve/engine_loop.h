// EngineLoop: one thread that continues completions with an Engine, many at a time, for many who
// wait for theirs.  Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "infer/engine.h"
#include "infer/prompt_scores.h"

namespace mt {

class EngineLoop {
 public:
  // What the loop does for one who asks.  The loop's thread calls its functions, which return soon.
  struct Work {
    std::unique_ptr<Completion> completion;
    // How many alternatives each token of its prompt is scored with; none: it is not scored.
    std::optional<std::int64_t> prompt_alternatives = {};
    // Is told of each token, and at the end.
    std::function<void(Completion&)> made = {};
    // Is told instead of the end, if the model fails.
    std::function<void(const std::string& why)> failed = {};
    // Is told before the first token, where the prompt is scored: of each token but the first.
    std::function<void(std::vector<LogProbs>)> scored = {};
  };
  using Ticket = std::uint64_t;

  // At most so many completions wait for others to end.
  EngineLoop(const Model& model, const EngineOptions& options, std::size_t most_waiting);
  EngineLoop(const EngineLoop&) = delete;
  ~EngineLoop();
  void stop();  // what is not finished is forgotten

  std::size_t most() const {  // completions that are taken at a time
    return most_waiting_ + static_cast<std::size_t>(options_.limits.max_requests);
  }
  std::int64_t max_tokens() const { return engine_.max_tokens(); }

  // Takes all of it, one ticket each, or, where the queue has no room for it, nothing.
  std::optional<std::vector<Ticket>> submit(std::vector<Work> work);
  // Nobody waits for it any more; what it is told meanwhile may still come.
  void cancel(Ticket ticket);

  struct State {
    std::size_t running = 0, waiting = 0;
    std::uint64_t prompt_tokens = 0, made_tokens = 0, finished = 0, cancelled = 0;
  };
  State state() const;

 private:
  struct Taken {
    Work work;
    Engine::Ticket in_engine = 0;
    std::size_t told = 0;  // tokens
  };
  EngineOptions with_failures(EngineOptions options);
  void run();
  void take_news();
  void begin(Ticket ticket);
  void drop(Ticket ticket, const std::string& why);
  void tell();

  const Model& model_;
  EngineOptions options_;
  std::size_t most_waiting_;
  // Of the thread:
  Engine engine_;
  std::unique_ptr<PromptScores> of_prompts_;  // made when first asked for
  std::map<Ticket, Taken> taken_, unscored_;  // unscored_: whose prompts are to be scored first
  std::vector<std::pair<Engine::Ticket, std::string>> failed_;

  mutable std::mutex mutex_;  // of the next
  std::condition_variable news_;
  std::vector<std::pair<Ticket, Work>> submitted_;
  std::vector<Ticket> cancelled_;
  Ticket last_ = 0;
  std::size_t open_ = 0;  // submitted and not ended
  State state_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace mt
