// TaskPrompts: what a model is asked of a task's documents: their questions behind examples, as
// text or as a conversation, and what is to follow, put together as lm-evaluation-harness does
// (fewshot_context, construct_requests).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "eval/tasks/eval_task.h"
#include "eval/tasks/few_shot.h"

namespace mt {

// A text, and what is to follow it: nothing where it is to be made, or where the text is all.
struct EvalRequest {
  std::string context, continuation;
  bool operator==(const EvalRequest&) const = default;
};

// EvalItem: a document, and all that is asked of it.
struct EvalItem {
  std::int64_t id = 0;
  ChatValue doc = {}, target = {};
  ChatValue gold = {};  // an index, a text, or several; of several contexts not the target
  std::vector<std::string> choices = {};
  std::vector<std::string> images = {};  // files
  std::vector<EvalRequest> requests = {};
};

struct PromptOptions {
  std::int64_t num_fewshot = 0;
  std::uint64_t seed = 1234;  // of the sampler
  std::string system = {};    // an instruction in front of all
  // The text of a conversation, behind which the answer or, if it `goes_on`, more of the last
  // message follows; null: the texts stand one behind the other.
  std::function<std::string(const ChatValue& messages, bool goes_on)> chat = {};
  bool multiturn = false;  // every example is two messages, instead of part of one
};

class TaskPrompts {
 public:
  // The task must outlive it.  `pool`: documents that examples are drawn from, and what errors call
  // them.
  TaskPrompts(const EvalTask& task, std::vector<ChatValue> pool, const std::string& pool_name,
              PromptOptions options);

  // Of the next document; those of a task come in their order.  Exit::bad_data, beginning with
  // `place`, for what the task's templates cannot make of it.
  EvalItem item(std::int64_t id, ChatValue doc, const std::string& place);

 private:
  struct Turn {
    std::string role, content, delimiter;
  };
  EvalItem made(std::int64_t id, ChatValue doc);
  std::vector<Turn> before(const ChatValue& doc);
  std::vector<Turn> question_and_answer(const ChatValue& doc) const;
  std::vector<Turn> question(const std::string& text, const std::string& prefix,
                             const std::string& delimiter) const;
  std::string context(std::vector<Turn> turns, bool goes_on) const;
  std::string delimiter() const;

  const EvalTask& task_;
  PromptOptions options_;
  FewShot examples_;
};

}  // namespace mt
