// PromptReader: the prompts of a run, from arguments, the lines of stdin or JSON lines on stdin
// (where its first line begins with "{"):
//   {"prompt": "Once", "temperature": 0.5, "id": 7}
//   {"messages": [{"role": "user", "content": "Who?"}], "tools": [...]}
//   {"prompt": "<image> What is it?", "images": ["cat.png"]}
// `prompt` is the text, or it is made of `messages`, with `tools`, `documents` and
// `chat_template_kwargs`, by the model's chat template; num_tokens, stop (a text or several),
// stop_tokens, ignore_eod, min_tokens, json_schema, logprobs, num_samples, temperature, top_k,
// top_p, min_p, seed, repetition_penalty, frequency_penalty, presence_penalty and logit_bias
// ({"17": -100}) replace the options of these names for this prompt; `images` are files that it has
// places for, in their order; all other members go to the output as they are.  Stdin may be packed
// with gzip or zstd; on a terminal each line is asked for.  Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/input/byte_source.h"
#include "infer/completion.h"

namespace mt {

class ChatPrompts;
class GrammarCache;

struct Prompt {
  std::string text;
  std::string place;  // for errors: "prompt 3", "stdin:3"
  CompletionOptions options;
  std::int64_t num_samples = 1;
  std::vector<std::string> images = {};                     // files
  std::vector<std::pair<std::string, std::string>> others;  // key and JSON value
};

// A prompt from a line of JSON; what the line does not say is as in `defaults`, whose place begins
// an error, Exit::bad_data.  `chat` makes prompts of messages.
Prompt prompt_of_json(std::string_view line, const Prompt& defaults, const ChatPrompts& chat,
                      GrammarCache& grammars);

// The member that one which changes nothing was perhaps to be, by its own name or another server's;
// empty: none.
std::string meant_member(std::string_view key);

class PromptReader {
 public:
  // `texts`, or the lines of stdin; `chat` and `grammars` must outlive it.
  PromptReader(std::vector<std::string> texts, bool from_stdin, Prompt defaults,
               const ChatPrompts& chat, GrammarCache& grammars)
      : texts_(std::move(texts)),
        from_stdin_(from_stdin),
        defaults_(std::move(defaults)),
        chat_(chat),
        grammars_(grammars) {}

  // Has `warn` told, once for each name, that a member of a line changes nothing, where one of
  // another name would.
  void warn_by(std::function<void(const std::string&)> warn) { warn_ = std::move(warn); }
  // The next prompt; nothing where there is none, or, unless it may wait, none yet.
  std::optional<Prompt> next(bool wait);

 private:
  std::optional<std::string> next_line(bool wait);
  void warn_of_members(const Prompt& prompt);

  std::vector<std::string> texts_;
  bool from_stdin_;
  Prompt defaults_;
  const ChatPrompts& chat_;
  GrammarCache& grammars_;
  std::size_t count_ = 0;  // prompts so far
  std::unique_ptr<ByteSource> input_;
  std::string buffer_;  // read and not yet taken
  bool ended_ = false, terminal_ = false, json_ = false;
  std::function<void(const std::string&)> warn_;
  std::set<std::string> members_;  // that change nothing, so far
};

}  // namespace mt
