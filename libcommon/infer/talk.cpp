#include "infer/talk.h"

#include <algorithm>

#include "infer/generate.h"
#include "infer/grammar_cache.h"

namespace mt {

void TalkOptions::add_to(CommandLine& cl) {
  cl.section("Model");
  cl.option("--load", &load, "PATH", kLoadedModel);
  cl.required("--load");
  cl.option("--system", &system, "TEXT", "the first message, which tells the model how to answer");
  compute.add_to(cl, kDtypeAsStored);
  compute.add_dequantize_to(cl);
  tokenizer.add_to(cl);
  tokenizer.add_extra_ids_to(cl);
  add_vocab_size_to(cl, tokenizer);
  completion.add_to(cl);
  chat.add_to(cl);
  cl.section("Run");
  limits.kept.add_to(cl);
  cl.option("--threads,-j", &limits.threads, "N", "worker threads of the CPU; 0: one a core",
            at_least(0));
}

namespace {

class Talk {
 public:
  Talk(const TalkOptions& options, const LoadedModel& loaded, const Terminal& terminal)
      : options_(options),
        terminal_(terminal),
        model_(completion_model(loaded)),
        chat_(model_.tokenizer, loaded.chat_files, loaded.path, options.chat,
              model_.llava != nullptr),
        grammars_(model_),
        asked_(options.completion.of_model(model_, grammars_)),
        engine_(*loaded.model, {.vocab_size = model_.vocab_size, .limits = options.limits}) {
    asked_.has_own_tokens = true;
    forget();
  }

  void run() {
    while (const std::optional<std::string> line = terminal_.read()) {
      if (*line == "/clear")
        forget();
      else if (!line->empty())
        answer(*line);
    }
  }

 private:
  static ChatValue message(const char* role, std::string_view content) {
    return ChatValue::dict({{"role", role}, {"content", content}});
  }

  void forget() {
    messages_.clear();
    if (!options_.system.empty()) messages_.push_back(message("system", options_.system));
    first_ = messages_.size();
  }

  // With what the model has room for, from the last message back.
  Completion completion() {
    for (;;) {
      ChatValue line;
      line.set("messages", ChatValue::list(messages_));
      CompletionOptions asked = asked_;
      const std::string text = chat_.text(line, "chat");
      const auto make = [&] { return Completion(model_, text, asked, turn_, 0); };
      Completion made = make();
      const std::int64_t room = engine_.max_tokens() - std::ssize(made.prompt());
      if (room >= std::min<std::int64_t>(asked.num_tokens, engine_.max_tokens() / 4)) return made;
      if (messages_.size() > first_ + 2) {
        const auto oldest = messages_.begin() + static_cast<std::ptrdiff_t>(first_);
        messages_.erase(oldest, oldest + 2);  // a question and its answer
        continue;
      }
      if (room < 1)
        fail(Exit::bad_data, "the message has ", made.prompt().size(),
             " tokens; the model takes fewer than ", engine_.max_tokens());
      asked.num_tokens = std::min(asked.num_tokens, room);
      return make();
    }
  }

  // Where the model cannot answer a message, such as one that is too long, this tells why, and the
  // conversation goes on without it.
  std::optional<Completion> completion_of(const std::string& line) {
    const std::vector<ChatValue> before = messages_;
    messages_.push_back(message("user", line));
    try {
      return completion();
    } catch (const Error& error) {
      if (error.code() != Exit::bad_data) throw;
      messages_ = before;
      options_.warn(error.what());
      return {};
    }
  }

  void answer(const std::string& line) {
    std::optional<Completion> made = completion_of(line);
    if (!made) return;
    Completion& completion = *made;
    ++turn_;
    const Engine::Ticket ticket = engine_.submit(completion);
    while (completion.finish() == Completion::Finish::none && !terminal_.stops()) {
      engine_.step();
      terminal_.print(completion.take());
    }
    engine_.cancel(ticket);
    terminal_.print("\n");
    messages_.push_back(message("assistant", completion.text()));
  }

  TalkOptions options_;
  const Terminal& terminal_;
  CompletionModel model_;
  ChatPrompts chat_;
  GrammarCache grammars_;
  CompletionOptions asked_;
  Engine engine_;
  std::vector<ChatValue> messages_;
  std::size_t first_ = 0;  // of them, that is not the system's
  std::uint32_t turn_ = 0;
};

}  // namespace

void talk(TalkOptions options, const Terminal& terminal) {
  const LoadedModel loaded = load_to_continue(options.load, options.tokenizer, options.compute);
  loaded.tell(options.warn);
  if (loaded.start_token) fail(Exit::bad_config, loaded.path, ": a T5 has no conversations");
  options.limits.cache = options.limits.kept.form(loaded);
  Talk(options, loaded, terminal).run();
}

}  // namespace mt
