#include "text/chat/chat_value.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "text/chat/chat_python.h"

namespace mt {

static constexpr int kDeepest = 1100;  // lists and dicts in each other; JSON is read to 1024
static constexpr std::int64_t kHeaviest = std::int64_t{1} << 22;  // texts of 256 MiB

void ChatValue::hold(auto& holder, const ChatValue& value) {
  holder.depth = std::max(holder.depth, value.depth() + 1);
  holder.weight += value.weight();
  if (holder.depth > kDeepest)
    throw ChatFailure{concat("lists and dicts nested deeper than ", kDeepest)};
  if (holder.weight > kHeaviest) throw ChatFailure{"a list or dict of more than 4 Mi values"};
}

std::int64_t ChatValue::weight() const {
  if (const std::string* const bytes = text()) return 1 + std::ssize(*bytes) / 64;
  if (const Items* const list = std::get_if<Items>(&value_)) return (*list)->weight;
  if (const Members* const dict = std::get_if<Members>(&value_)) return (*dict)->weight;
  return 1;
}

int ChatValue::depth() const {
  if (const Items* const list = std::get_if<Items>(&value_)) return (*list)->depth;
  if (const Members* const dict = std::get_if<Members>(&value_)) return (*dict)->depth;
  return 0;
}

ChatValue ChatValue::undefined(std::string message) {
  ChatValue value;
  value.value_ = Undefined{std::make_shared<const std::string>(std::move(message))};
  return value;
}

ChatValue ChatValue::list(std::vector<ChatValue> items, Sequence kind, std::string shown) {
  auto list = std::make_shared<List>(List{{}, kind, std::move(shown)});
  for (const ChatValue& item : items) hold(*list, item);
  list->items = std::move(items);
  ChatValue value;
  value.value_ = std::move(list);
  return value;
}

ChatValue ChatValue::dict(Pairs pairs) {
  Dict dict;
  std::unordered_map<std::string_view, std::size_t> texts;  // where each key stands
  for (auto& [key, item] : pairs) {
    hold(dict, key);
    hold(dict, item);
    std::size_t at = dict.pairs.size();
    if (const std::string* const text = key.text())
      at = texts.try_emplace(*text, at).first->second;
    else
      at = static_cast<std::size_t>(std::ranges::find_if(dict.pairs,
                                                         [&, &wanted = key](const auto& pair) {
                                                           return python_equal(pair.first, wanted);
                                                         }) -
                                    dict.pairs.begin());
    if (at < dict.pairs.size())
      dict.pairs[at].second = std::move(item);
    else
      dict.pairs.emplace_back(std::move(key), std::move(item));
  }
  ChatValue value;
  value.value_ = std::make_shared<Dict>(std::move(dict));
  return value;
}

const std::string* ChatValue::text() const {
  const Text* const text = std::get_if<Text>(&value_);
  return text == nullptr ? nullptr : text->bytes.get();
}

const ChatValue::List* ChatValue::sequence() const {
  const Items* const list = std::get_if<Items>(&value_);
  return list == nullptr ? nullptr : list->get();
}

const std::vector<ChatValue>* ChatValue::items() const {
  const List* const list = sequence();
  return list == nullptr ? nullptr : &list->items;
}

const ChatValue::Pairs* ChatValue::pairs() const {
  const Members* const dict = std::get_if<Members>(&value_);
  return dict == nullptr ? nullptr : &(*dict)->pairs;
}

const std::string* ChatValue::undefined_message() const {
  const Undefined* const none = std::get_if<Undefined>(&value_);
  return none == nullptr ? nullptr : none->message.get();
}

ChatObject* ChatValue::object() const {
  ChatObject* const* const object = std::get_if<ChatObject*>(&value_);
  return object == nullptr ? nullptr : *object;
}

static auto position(auto& pairs, std::string_view key) {
  return std::ranges::find_if(pairs, [&](const auto& pair) {
    const std::string* const name = pair.first.text();
    return name != nullptr && *name == key;
  });
}

const ChatValue* ChatValue::find(std::string_view key) const {
  const Pairs* const all = pairs();
  if (all == nullptr) return nullptr;
  const auto found = position(*all, key);
  return found == all->end() ? nullptr : &found->second;
}

// Its dict, which no other value shares from now on.
ChatValue::Dict& ChatValue::own_dict() {
  Members* const dict = std::get_if<Members>(&value_);
  if (dict == nullptr)
    value_ = std::make_shared<Dict>();
  else if (dict->use_count() > 1)
    *dict = std::make_shared<Dict>(**dict);
  return *std::get<Members>(value_);
}

void ChatValue::set(std::string_view key, ChatValue value) {
  Dict& dict = own_dict();
  hold(dict, value);
  if (const auto found = position(dict.pairs, key); found != dict.pairs.end())
    found->second = std::move(value);
  else
    dict.pairs.emplace_back(key, std::move(value));
}

void ChatValue::erase(std::string_view key) {
  Dict& dict = own_dict();
  if (const auto found = position(dict.pairs, key); found != dict.pairs.end())
    dict.pairs.erase(found);
}

void ChatValue::push_back(ChatValue value) {
  Items* const list = std::get_if<Items>(&value_);
  if (list == nullptr)
    value_ = std::make_shared<List>();
  else if (list->use_count() > 1)
    *list = std::make_shared<List>(**list);
  List& own = *std::get<Items>(value_);
  hold(own, value);
  own.items.push_back(std::move(value));
}

}  // namespace mt
