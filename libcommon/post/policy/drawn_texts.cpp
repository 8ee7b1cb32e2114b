#include "post/policy/drawn_texts.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/error.h"
#include "comm/group.h"
#include "infer/chat_prompts.h"
#include "infer/engine.h"
#include "post/policy/environment.h"
#include "text/put_in_front.h"

namespace mt {

static void put_letters(const std::string& text, std::vector<double>& numbers) {
  for (const char c : text) numbers.push_back(static_cast<unsigned char>(c));
}

static double take_number(std::span<const double>& numbers) {
  const double number = numbers.front();
  numbers = numbers.subspan(1);
  return number;
}

static std::string take_letters(std::span<const double>& numbers, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i)
    text += static_cast<char>(static_cast<unsigned char>(take_number(numbers)));
  return text;
}

// A text as numbers: how many of each kind follow, and these.
static void put_text(const DrawnText& drawn, std::vector<double>& numbers) {
  const Rollout& one = drawn.rollout;
  for (const std::size_t count :
       {one.text.ids.size(), one.generated.size(), one.reference.size(), one.versions.size(),
        one.experts.size(), drawn.judged.size(), drawn.text.size(), drawn.wrong.size(),
        drawn.named.size(), static_cast<std::size_t>(one.truncated),
        static_cast<std::size_t>(one.stopped), static_cast<std::size_t>(drawn.turns)})
    numbers.push_back(static_cast<double>(count));
  numbers.push_back(drawn.environment);
  numbers.insert(numbers.end(), one.text.ids.begin(), one.text.ids.end());
  numbers.insert(numbers.end(), one.text.learnt.begin(), one.text.learnt.end());
  numbers.insert(numbers.end(), one.generated.begin(), one.generated.end());
  numbers.insert(numbers.end(), one.reference.begin(), one.reference.end());
  numbers.insert(numbers.end(), one.versions.begin(), one.versions.end());
  numbers.insert(numbers.end(), one.experts.begin(), one.experts.end());
  numbers.insert(numbers.end(), drawn.judged.begin(), drawn.judged.end());
  put_letters(drawn.text, numbers);
  put_letters(drawn.wrong, numbers);
  for (const auto& [name, reward] : drawn.named) {
    numbers.push_back(static_cast<double>(name.size()));
    put_letters(name, numbers);
    numbers.push_back(reward);
  }
}

static DrawnText take_text(std::span<const double>& numbers) {
  const auto take = [&] { return take_number(numbers); };
  const auto count = [&] { return static_cast<std::size_t>(take()); };
  const std::size_t ids = count(), generated = count(), references = count(), versions = count(),
                    experts = count(), judges = count(), bytes = count(), wrong = count(),
                    named = count();
  DrawnText drawn;
  drawn.rollout.truncated = take() != 0;
  drawn.rollout.stopped = take() != 0;
  drawn.turns = static_cast<std::int64_t>(take());
  drawn.environment = take();
  Example& text = drawn.rollout.text;
  for (std::size_t i = 0; i < ids; ++i) text.ids.push_back(static_cast<std::int32_t>(take()));
  for (std::size_t i = 0; i < ids; ++i) text.learnt.push_back(take() != 0);
  for (std::size_t i = 0; i < generated; ++i)
    drawn.rollout.generated.push_back(static_cast<float>(take()));
  for (std::size_t i = 0; i < references; ++i)
    drawn.rollout.reference.push_back(static_cast<float>(take()));
  for (std::size_t i = 0; i < versions; ++i)
    drawn.rollout.versions.push_back(static_cast<std::int64_t>(take()));
  for (std::size_t i = 0; i < experts; ++i)
    drawn.rollout.experts.push_back(static_cast<std::int32_t>(take()));
  for (std::size_t i = 0; i < judges; ++i) drawn.judged.push_back(take());
  drawn.text = take_letters(numbers, bytes);
  drawn.wrong = take_letters(numbers, wrong);
  for (std::size_t i = 0; i < named; ++i) {
    auto& [name, reward] = drawn.named.emplace_back();
    name = take_letters(numbers, count());
    reward = take();
  }
  return drawn;
}

// Gives all ranks the numbers of one of them.
static void share(Group& ranks, int root, std::vector<double>& numbers) {
  auto size = static_cast<double>(numbers.size());
  ranks.broadcast({&size, DType::f64, {1}}, root).wait();
  numbers.resize(static_cast<std::size_t>(size));
  ranks.broadcast({numbers.data(), DType::f64, {std::ssize(numbers)}}, root).wait();
}

bool AgreedEnd::behind_step() {
  constexpr int kSteps = 16;
  return options_.ranks.group == nullptr ? options_.ends() : ++steps_ % kSteps == 0 && now();
}

bool AgreedEnd::now() const {
  double ends = options_.ends() ? 1 : 0;
  if (options_.ranks.group != nullptr)
    options_.ranks.group->all_reduce({&ends, DType::f64, {1}}, Reduction::max).wait();
  return ends > 0;
}

CompletionOptions completion_of(const Example& text, const DrawOptions& options) {
  const std::int64_t room = options.seq_length - text.size();
  CompletionOptions asked{.num_tokens = options.most_tokens > 0
                                            ? std::min(room, options.most_tokens - text.targets())
                                            : room,
                          .stop = options.stop,
                          .scored = options.scored,
                          .include_stop = true};
  static_cast<Sampling&>(asked.sampling) = options.sampling;
  return asked;
}

void take_completion(DrawnText& drawn, const Completion& completion) {
  Example& text = drawn.rollout.text;
  text.ids = completion.ids();
  if (completion.end_token()) text.ids.push_back(*completion.end_token());
  text.learnt.resize(text.ids.size(), true);
  drawn.rollout.truncated = completion.finish() != Completion::Finish::stop;
  drawn.rollout.stopped = !drawn.rollout.truncated && !completion.end_token();
  for (const double score : completion.scores())
    drawn.rollout.generated.push_back(static_cast<float>(std::min(0.0, score)));
  drawn.rollout.experts = completion.experts();
  drawn.text = completion.text();
}

namespace {

// A text that is drawn turn by turn, of a member of a prompt's group.
struct TextOfTurns {
  std::uint32_t prompt = 0, member = 0;
  DrawnText drawn = {};
  EnvironmentProgram::Dialogue dialogue = {};
  bool goes_on = true;

  Example& text() { return drawn.rollout.text; }
};

// Draws a turn of these texts; false where it is to end.
bool draw_turn(Engine& engine, const CompletionModel& about, std::span<TextOfTurns* const> texts,
               const DrawOptions& options, AgreedEnd& ends) {
  std::deque<Completion> completions;  // the engine points into it
  for (TextOfTurns* const one : texts) {
    CompletionOptions asked = completion_of(one->text(), options);
    if (one->dialogue.stop) asked.stop = *one->dialogue.stop;
    const auto turn = static_cast<std::uint32_t>(one->dialogue.turn);
    engine.submit(completions.emplace_back(about, one->text().ids, asked, one->prompt,
                                           one->member + turn * std::uint32_t{kMostTexts}));
  }
  while (engine.step())
    if (ends.behind_step()) return false;
  for (std::size_t i = 0; i < texts.size(); ++i) take_completion(texts[i]->drawn, completions[i]);
  return true;
}

// The text of a message that a response continues.
std::string said_by(const ChatValue& message) {
  const ChatValue* const content = message.find("content");
  if (content == nullptr || content->text() == nullptr)
    fail(Exit::bad_data, "the response continues a message that is no text");
  return *content->text();
}

// The text behind the assistant's response, which stands before the last of the messages.
std::string behind_response(const ChatPrompts& chat, const PolicyPrompt& prompt,
                            std::span<const EnvironmentProgram::Said> messages) {
  constexpr std::string_view kResponse = "\uE8F5\uE0A1";  // as no text has it
  ChatValue line = *prompt.chat;
  std::vector<ChatValue> all = *line.find("messages")->items();
  const ChatValue* const continues = line.find("continue_final_message");
  for (std::size_t i = 0; i < messages.size(); ++i) {
    std::string content = i + 2 == messages.size() ? std::string(kResponse) : messages[i].content;
    if (i == 0 && continues != nullptr && continues->boolean() && *continues->boolean()) {
      content = said_by(all.back()) + content;
      all.pop_back();
    }
    ChatValue message;
    message.set("role", ChatValue(messages[i].role));
    message.set("content", ChatValue(std::move(content)));
    all.push_back(std::move(message));
  }
  line.set("messages", ChatValue::list(std::move(all)));
  line.erase("continue_final_message");
  line.erase("add_generation_prompt");
  const std::string where = concat(prompt.file, ":", prompt.line);
  const std::string text = chat.text(line, where);
  const std::size_t at = text.rfind(kResponse);
  if (at == text.npos)
    fail(Exit::bad_data, where, ": the chat template shows nothing of what the assistant has said");
  return text.substr(at + kResponse.size());
}

// A template ends a response with a token that ends texts, as the response has one by now, which
// need not be the same; white space may be before it.
void drop_end(std::vector<std::int32_t>& ids, std::int32_t end, const CompletionModel& about) {
  const auto at = std::ranges::find_if(ids, [&](std::int32_t id) {
    return id == end || std::ranges::count(about.end_tokens, id) > 0;
  });
  if (at == ids.end()) return;
  const std::string before = about.tokenizer.decode_text({ids.begin(), at});
  if (before.find_first_not_of(" \t\r\n") == before.npos) ids.erase(ids.begin(), at + 1);
}

// Puts the last of the messages behind the text; false where there is no room for it, and a token
// more.
bool hear(TextOfTurns& one, const CompletionModel& about, const DrawOptions& options) {
  const PolicyPrompt& prompt = *one.dialogue.prompt;
  Example& text = one.text();
  std::vector<std::int32_t> ids;
  if (prompt.chat) {
    encode_alone(about.tokenizer, behind_response(*options.chat, prompt, one.dialogue.messages),
                 ids);
    if (!one.drawn.rollout.stopped) drop_end(ids, text.ids.back(), about);
  } else {
    encode_alone(about.tokenizer, one.dialogue.messages.back().content, ids);
  }
  if (text.size() + std::ssize(ids) >= options.seq_length ||
      (options.most_tokens > 0 && text.targets() >= options.most_tokens)) {
    one.drawn.rollout.truncated = true;
    return false;
  }
  text.ids.insert(text.ids.end(), ids.begin(), ids.end());
  text.learnt.resize(text.ids.size(), false);
  return true;
}

// The same; an observation of which no text can be made ends the text, which then has no reward.
bool hears(TextOfTurns& one, const CompletionModel& about, const DrawOptions& options) {
  try {
    return hear(one, about, options);
  } catch (const Error& error) {
    one.dialogue.reward = NAN;
    one.drawn.wrong = concat("said what cannot be put behind a text: ", error.what());
    return false;
  }
}

void take_answers(std::span<TextOfTurns* const> texts, const CompletionModel& about,
                  const DrawOptions& options) {
  std::vector<EnvironmentProgram::Dialogue*> dialogues;
  for (TextOfTurns* const one : texts) {
    one->dialogue.response = one->drawn.text;
    one->dialogue.truncated = one->drawn.rollout.truncated;
    dialogues.push_back(&one->dialogue);
  }
  const EnvironmentProgram::Answers answers = options.environment->answer(dialogues, options.ends);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    TextOfTurns& one = *texts[i];
    if (one.drawn.wrong.empty()) one.drawn.wrong = answers.wrong;
    one.goes_on =
        answers.go_on[i] && one.dialogue.turn < options.turns && hears(one, about, options);
    one.drawn.turns += one.goes_on ? 1 : 0;
    one.drawn.environment = one.dialogue.reward;
    one.drawn.named = one.dialogue.named;
  }
}

// How many texts end the next response, -1 where that is not said, and these.
void put_stop(const EnvironmentProgram::Dialogue& of, std::vector<double>& numbers) {
  numbers.push_back(of.stop ? static_cast<double>(of.stop->size()) : -1);
  if (!of.stop) return;
  for (const std::string& text : *of.stop) {
    numbers.push_back(static_cast<double>(text.size()));
    put_letters(text, numbers);
  }
}

void take_stop(EnvironmentProgram::Dialogue& of, std::span<const double>& numbers) {
  const double count = take_number(numbers);
  of.stop.reset();
  if (count < 0) return;
  of.stop.emplace();
  for (double i = 0; i < count; ++i) {
    const auto size = static_cast<std::size_t>(take_number(numbers));
    of.stop->push_back(take_letters(numbers, size));
  }
}

// What the first of the ranks that draw together knows of these texts, all know then.
void share_answers(std::span<TextOfTurns* const> texts, Group& ranks) {
  std::vector<double> numbers;
  if (ranks.rank() == 0)
    for (const TextOfTurns* const one : texts) {
      numbers.push_back(one->goes_on ? 1 : 0);
      numbers.push_back(static_cast<double>(one->dialogue.turn));
      put_stop(one->dialogue, numbers);
      put_text(one->drawn, numbers);
    }
  share(ranks, 0, numbers);
  std::span<const double> left(numbers);
  for (TextOfTurns* const one : texts) {
    one->goes_on = left[0] > 0;
    one->dialogue.turn = static_cast<std::int64_t>(left[1]);
    left = left.subspan(2);
    take_stop(one->dialogue, left);
    one->drawn = take_text(left);
  }
}

}  // namespace

std::optional<std::vector<DrawnText>> draw_texts(const Model& model, const CompletionModel& about,
                                                 std::span<const AskedText> asked,
                                                 const DrawOptions& options) {
  if (asked.empty()) return std::vector<DrawnText>();
  std::vector<TextOfTurns> texts;
  for (const AskedText& text : asked) {
    TextOfTurns& one = texts.emplace_back();
    one.prompt = static_cast<std::uint32_t>(text.group);
    one.member = static_cast<std::uint32_t>(text.member);
    one.dialogue.prompt = text.prompt;
    one.dialogue.metadata = text.prompt->metadata;
    one.text().ids = text.prompt->ids;
    one.text().learnt.assign(text.prompt->ids.size(), false);
  }
  // A new one each time: what an engine keeps of texts is of the weights that have seen them.
  Engine engine(model,
                {.vocab_size = about.vocab_size,
                 .limits = {.max_requests = std::min(std::ssize(texts), CachedPass::kTogether),
                            .threads = options.threads},
                 .ranks = options.ranks});
  AgreedEnd ends(options);
  Group* const ranks = options.ranks.group;
  std::vector<TextOfTurns*> open;
  for (TextOfTurns& one : texts) open.push_back(&one);
  while (!open.empty()) {
    if (!draw_turn(engine, about, open, options, ends)) return std::nullopt;
    if (options.environment == nullptr) break;
    if (ranks == nullptr || ranks->rank() == 0) take_answers(open, about, options);
    if (ends.now()) return std::nullopt;
    if (ranks != nullptr) share_answers(open, *ranks);
    std::erase_if(open, [](const TextOfTurns* one) { return !one->goes_on; });
  }
  std::vector<DrawnText> drawn;
  for (TextOfTurns& one : texts) drawn.push_back(std::move(one.drawn));
  return drawn;
}

// --- Of several ranks ---------------------------------------------------------------------------

std::optional<std::vector<DrawnText>> all_texts(Group& ranks,
                                                std::optional<std::vector<DrawnText>> own) {
  if (ranks.size() == 1) return own;
  const auto sum = [&](std::vector<double>& numbers) {
    ranks.all_reduce({numbers.data(), DType::f64, {std::ssize(numbers)}}).wait();
  };
  std::vector<double> numbers;
  if (own)
    for (const DrawnText& one : *own) put_text(one, numbers);
  std::vector<double> sizes(static_cast<std::size_t>(ranks.size()) + 1);  // the last: have ended
  sizes[static_cast<std::size_t>(ranks.rank())] = static_cast<double>(numbers.size());
  sizes.back() = own ? 0 : 1;
  sum(sizes);
  if (sizes.back() > 0) return std::nullopt;
  std::size_t before = 0, total = 0;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto size = static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank)]);
    if (rank < ranks.rank()) before += size;
    total += size;
  }
  numbers.insert(numbers.begin(), before, 0);
  numbers.resize(total);
  sum(numbers);
  std::vector<DrawnText> all;
  for (std::span<const double> left(numbers); !left.empty();) all.push_back(take_text(left));
  return all;
}

std::vector<DrawnText> texts_of(Group& ranks, int root, const std::vector<DrawnText>& own) {
  if (ranks.size() == 1) return own;
  std::vector<double> numbers;
  if (ranks.rank() == root)
    for (const DrawnText& one : own) put_text(one, numbers);
  share(ranks, root, numbers);
  std::vector<DrawnText> all;
  for (std::span<const double> left(numbers); !left.empty();) all.push_back(take_text(left));
  return all;
}

}  // namespace mt
