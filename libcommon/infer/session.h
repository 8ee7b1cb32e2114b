// Session: answers prompts, several at a time, and prints what each of their completions becomes,
// as it is made, in the order of the prompts: the prompt and what follows it, or what is made alone
// where an encoder reads the prompt, or a line of JSON,
//   {"schema":"mt-generate/1","prompt":"Once","text":" upon","tokens":1,"finish_reason":"length",…}
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "infer/engine.h"
#include "infer/image_pass.h"
#include "infer/prompt_reader.h"
#include "infer/retro_engine.h"

namespace mt {

struct SessionOptions {
  EngineLimits limits;
  const Model* draft = nullptr;         // EngineOptions'
  NeighborSource* neighbors = nullptr;  // RetroEngine's
  bool retrieves = true;                // and whether it does so
  bool json = false;
  std::function<void()> answered = [] {};  // called when a completion is printed whole
};

class Session {
 public:
  using Print = std::function<void(std::string_view)>;

  // `about` must outlive it.
  Session(const Model& model, const CompletionModel& about, PromptReader& reader,
          const SessionOptions& options, Print print);

  // Returns once the reader has no more prompts and all are answered.  Before a prompt that is
  // wrong ends the run, those before it are answered.
  void run();

 private:
  struct Answer {
    Prompt prompt;
    std::int64_t sample;
    Completion completion;
    bool begun = false;  // its prompt is printed
    RetroEngine::Retrieved retrieved = {};
  };
  bool admit();
  void read_images();
  bool full() const;
  std::int64_t max_tokens() const;
  void submit(Answer& answer);
  void step();
  void print_made();
  void print_json(const Answer& answer) const;

  bool json_;
  Print print_;
  std::function<void()> answered_;
  PromptReader& reader_;
  const CompletionModel& model_;
  // One of the two: a Retro has the other.
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<RetroEngine> retro_;
  std::unique_ptr<ImagePass> images_;  // of a LLaVA
  std::deque<Answer> answers_;         // in the order of the output; the engine points into it
  std::optional<Prompt> prompt_;
  std::int64_t sample_ = 0;  // of prompt_, the next
  std::uint32_t prompts_ = 0;
};

}  // namespace mt
