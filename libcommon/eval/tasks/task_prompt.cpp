#include "eval/tasks/task_prompt.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chat/chat_python.h"
#include "text/chat/chat_strings.h"

namespace mt {
namespace {

bool ends_with_space(std::string_view text) {
  return !text.empty() && strip_text(text, Side::right).size() < text.size();
}
bool begins_with_space(std::string_view text) {
  return !text.empty() && strip_text(text, Side::left).size() < text.size();
}

// With the delimiter only where no white space parts them.
std::string joined(const std::string& first, const std::string& second,
                   const std::string& delimiter) {
  if (first.empty() || second.empty()) return first + second;
  return first + (ends_with_space(first) || begins_with_space(second) ? "" : delimiter) + second;
}

// What a template says: digits are an index where there are choices.
ChatValue index_or_text(const EvalTask& task, const EvalField& field, const ChatValue& doc) {
  const ChatValue value = field.of(doc);
  const std::string* const written = field.written().text();
  if (written == nullptr || doc.find(*written) != nullptr || value.is_list()) return value;
  const std::string text = python_text(value);
  if (task.choice.is_given() && is_digits(text))
    if (const auto number = python_parse_int(text, 10)) return *number;
  return text;
}

ChatValue target_of(const EvalTask& task, const ChatValue& doc) {
  const ChatValue value = index_or_text(task, task.target, doc);
  const std::string* const text = value.text();
  if (text == nullptr || task.kind == EvalKind::rolling || !text->starts_with('[') ||
      !text->ends_with(']'))
    return value;
  try {
    return chat_constant(*text, "");
  } catch (const Error&) {
    return value;  // a text in brackets
  }
}

std::vector<std::string> choices_of(const EvalTask& task, const ChatValue& doc) {
  if (!task.choice.is_given()) return {};
  ChatValue value = task.choice.of(doc);
  if (const std::string* const text = value.text())
    value = chat_constant(*text, task.choice.name());
  std::vector<std::string> choices;
  if (const ChatValue::Pairs* const pairs = value.pairs()) {
    for (const auto& pair : *pairs) choices.push_back(python_text(pair.second));
  } else {
    if (!value.is_list()) fail(Exit::bad_data, task.choice.name(), ": expected a list");
    for (const ChatValue& choice : *value.items()) choices.push_back(python_text(choice));
  }
  if (choices.empty()) fail(Exit::bad_data, task.choice.name(), ": there is no choice");
  return choices;
}

// The text of an answer: that of its choice, or the first of several.
std::string answer_text(const ChatValue& target, const std::vector<std::string>& choices,
                        const EvalField& field) {
  if (const auto index = python_index(target); index && !choices.empty()) {
    if (*index < 0 || *index >= std::ssize(choices))
      fail(Exit::bad_data, field.name(), ": ", *index, " is none of ", choices.size(), " choices");
    return choices[static_cast<std::size_t>(*index)];
  }
  if (target.is_list()) return target.items()->empty() ? "" : python_text(target.items()->front());
  return target.is_none() ? "" : python_text(target);
}

// Returns the files of a document's images: each field of the task has a name, or a list of names.
std::vector<std::string> images_of(const EvalTask& task, const ChatValue& doc) {
  std::vector<std::string> images;
  for (const EvalField& field : task.images) {
    const ChatValue value = field.of(doc);
    for (const ChatValue& one : value.is_list() ? *value.items() : std::vector{value}) {
      if (one.text() == nullptr || one.text()->empty())
        fail(Exit::bad_data, field.name(), ": expected the name of a file, or a list of them");
      images.push_back(*one.text());
    }
  }
  return images;
}

ChatValue with_more_fields(const EvalTask& task, ChatValue doc) {
  if (!doc.is_dict()) fail(Exit::bad_data, "expected an object");
  const ChatValue read = doc;
  for (const auto& [name, field] : task.process_docs) doc.set(name, field.of(read));
  return doc;
}

std::vector<ChatValue> processed(const EvalTask& task, std::vector<ChatValue> docs,
                                 const std::string& name) {
  for (std::size_t i = 0; i < docs.size(); ++i) try {
      docs[i] = with_more_fields(task, std::move(docs[i]));
    } catch (const Error& error) {
      fail(error.code(), name, ": document ", i, ": ", error.what());
    }
  return docs;
}

}  // namespace

TaskPrompts::TaskPrompts(const EvalTask& task, std::vector<ChatValue> pool,
                         const std::string& pool_name, PromptOptions options)
    : task_(task),
      options_(std::move(options)),
      examples_(processed(task, std::move(pool), pool_name), {.count = options_.num_fewshot,
                                                              .first_n = task.first_n,
                                                              .draws_itself = task.draws_itself,
                                                              .seed = options_.seed,
                                                              .place = pool_name}) {}

std::vector<TaskPrompts::Turn> TaskPrompts::question(const std::string& text,
                                                     const std::string& prefix,
                                                     const std::string& delimiter) const {
  std::vector<Turn> turns;
  const bool parts =
      !prefix.empty() && !text.empty() && !ends_with_space(text) && !begins_with_space(prefix);
  turns.push_back({"user", text, parts ? delimiter : ""});
  if (!prefix.empty()) turns.push_back({"assistant", prefix, ""});
  return turns;
}

std::vector<TaskPrompts::Turn> TaskPrompts::question_and_answer(const ChatValue& doc) const {
  std::vector<std::string> choices = choices_of(task_, doc);
  const ChatValue asked = index_or_text(task_, task_.text, doc), target = target_of(task_, doc);
  const bool several = task_.choice.is_given() && python_index(asked);
  const std::string text = several ? answer_text(asked, choices, task_.text) : python_text(asked);
  if (several) choices.clear();  // they are contexts, and no answers
  const std::string answer = answer_text(target, choices, task_.target),
                    prefix = task_.gen_prefix.text_of(doc);
  if (answer.empty()) return question(text, prefix, task_.target_delimiter);
  const bool delimits =
      prefix.empty() || (!text.empty() && !ends_with_space(text) && !begins_with_space(prefix));
  return {{"user", text, delimits ? task_.target_delimiter : ""},
          {"assistant", joined(prefix, answer, " "), task_.fewshot_delimiter}};
}

std::vector<TaskPrompts::Turn> TaskPrompts::before(const ChatValue& doc) {
  std::vector<Turn> turns;
  const std::string system =
      joined(options_.system, task_.description.text_of(doc), task_.fewshot_delimiter);
  if (!system.empty()) turns.push_back({"system", system, ""});
  for (const ChatValue& example : examples_.next(doc))
    for (Turn& turn : question_and_answer(example)) turns.push_back(std::move(turn));
  return turns;
}

// The text of these turns, or the conversation that they are.
std::string TaskPrompts::context(std::vector<Turn> turns, bool goes_on) const {
  const auto joined_text = [](auto begin, auto end) {
    std::string text;
    for (auto turn = begin; turn != end; ++turn) text += turn->content + turn->delimiter;
    return text;
  };
  if (!options_.chat) return joined_text(turns.begin(), turns.end());
  if (!options_.multiturn) {  // all but the instruction and what is begun of the answer are one
    const auto first = turns.begin() + (turns.front().role == "system" ? 1 : 0);
    const auto last = turns.end() - (turns.back().role == "assistant" ? 1 : 0);
    (last - 1)->delimiter.clear();
    Turn all{"user", joined_text(first, last), ""};
    turns.insert(turns.erase(first, last), std::move(all));
  }
  ChatValue messages = ChatValue::list({});
  for (const Turn& turn : turns)
    messages.push_back(ChatValue::dict({{"role", turn.role}, {"content", turn.content}}));
  return options_.chat(messages, goes_on);
}

// Between a context and a choice.
std::string TaskPrompts::delimiter() const {
  if (!options_.chat) return task_.target_delimiter;
  const std::string* const prefix = task_.gen_prefix.written().text();
  return prefix != nullptr && !ends_with_space(*prefix) ? task_.target_delimiter : "";
}

EvalItem TaskPrompts::item(std::int64_t id, ChatValue doc, const std::string& place) {
  try {
    return made(id, std::move(doc));
  } catch (const Error& error) {
    fail(error.code(), place, ": ", error.what());
  }
}

EvalItem TaskPrompts::made(std::int64_t id, ChatValue doc) {
  EvalItem item{.id = id, .doc = with_more_fields(task_, std::move(doc))};
  item.target = item.gold = target_of(task_, item.doc);
  item.images = images_of(task_, item.doc);
  if (task_.kind == EvalKind::rolling) {
    item.requests.push_back({python_text(item.target), ""});
    return item;
  }
  item.choices = choices_of(task_, item.doc);
  const ChatValue asked = index_or_text(task_, task_.text, item.doc);
  const std::vector<Turn> before = this->before(item.doc);
  const std::string prefix = task_.gen_prefix.text_of(item.doc);
  const auto context_of = [&](const std::string& text, const std::string& between) {
    std::vector<Turn> turns = before;
    for (Turn& turn : question(text, prefix, between)) turns.push_back(std::move(turn));
    return context(std::move(turns), !prefix.empty());
  };
  if (task_.kind == EvalKind::multiple_choice && python_index(asked)) {  // several contexts
    item.gold = asked;
    for (const std::string& choice : item.choices)
      item.requests.push_back({context_of(choice, ""), delimiter() + python_text(item.target)});
  } else {
    const std::string context = context_of(python_text(asked), task_.target_delimiter);
    if (task_.kind == EvalKind::loglikelihood)
      item.requests.push_back({context, python_text(item.target)});
    else if (task_.kind == EvalKind::generate)
      item.requests.push_back({context, ""});
    else
      for (const std::string& choice : item.choices)
        item.requests.push_back({context, delimiter() + choice});
  }
  if (std::ranges::find(task_.metrics, "acc_mutual_info", &EvalMetric::name) != task_.metrics.end())
    for (const std::string& choice : item.choices)
      item.requests.push_back({"", delimiter() + choice});
  return item;
}

}  // namespace mt
