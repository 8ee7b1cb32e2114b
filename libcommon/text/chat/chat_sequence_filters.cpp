#include "text/chat/chat_sequence_filters.h"

#include <algorithm>

#include "base/error.h"
#include "text/chat/chat_arguments.h"
#include "text/chat/chat_names.h"
#include "text/chat/chat_strings.h"

namespace mt {
namespace {

using Arguments = const ChatArguments&;

bool asked(const std::optional<ChatValue>& value) { return value && python_truth(*value); }

// The items of a value, which are counted as work.
std::vector<ChatValue> items_of(ChatRun& run, const ChatValue& value) {
  std::vector<ChatValue> items = python_items(value);
  run.charge(std::ssize(items));
  return items;
}

ChatValue without_case(const ChatValue& value) {
  return value.is_text() ? ChatValue(lower_text(*value.text())) : value;
}

// By keys that are made once; equal ones stay in their order.
std::vector<ChatValue> sorted(ChatRun& run, std::vector<ChatValue> items, bool reverse,
                              const auto& key) {
  std::vector<std::pair<ChatValue, ChatValue>> keyed;
  for (ChatValue& item : items) keyed.emplace_back(key(item), std::move(item));
  const auto less = [&](const auto& a, const auto& b) {
    run.charge(1 + std::min(a.first.weight(), b.first.weight()) / 16);
    return reverse ? python_less(b.first, a.first) : python_less(a.first, b.first);
  };
  std::stable_sort(keyed.begin(), keyed.end(), less);
  for (std::size_t i = 0; i < keyed.size(); ++i) items[i] = std::move(keyed[i].second);
  return items;
}

// The test that `select` and its like are given, of an item's attribute where one is named.
ChatValue selected(ChatRun& run, const ChatValue& value, Arguments arguments, bool by_attribute,
                   bool wanted) {
  std::vector<ChatValue> all =
      python_truth(value) ? items_of(run, value) : std::vector<ChatValue>{};
  ChatArguments rest = arguments;
  std::optional<ChatValue> attribute;
  const auto take_first = [&] {
    ChatValue first = std::move(rest.positional.front());
    rest.positional.erase(rest.positional.begin());
    return first;
  };
  if (by_attribute) {
    if (rest.positional.empty()) throw ChatFailure{"Missing parameter for attribute name"};
    attribute = take_first();
  }
  const ChatTest* test = nullptr;
  if (!rest.positional.empty()) {
    const ChatValue name = take_first();
    test = name.is_text() ? find_chat_test(*name.text()) : nullptr;
    if (test == nullptr) throw ChatFailure{"No test named " + python_repr(name) + "."};
  }
  std::vector<ChatValue> kept;
  for (ChatValue& item : all) {
    const ChatValue subject = attribute ? attribute_of(run, item, *attribute) : item;
    if ((test == nullptr ? python_truth(subject) : test->holds(subject, rest)) == wanted)
      kept.push_back(std::move(item));
  }
  return run.generator(std::move(kept));
}

}  // namespace

ChatValue filter_length(ChatRun&, const ChatValue& value, Arguments arguments) {
  arguments.bind("length", {});
  return python_length(value);
}

ChatValue filter_list(ChatRun& run, const ChatValue& value, Arguments arguments) {
  arguments.bind("list", {});
  return ChatValue::list(items_of(run, value));
}

ChatValue filter_items(ChatRun& run, const ChatValue& value, Arguments arguments) {
  arguments.bind("items", {});
  std::vector<ChatValue> items;
  if (!value.is_undefined() && !value.is_dict())
    throw ChatFailure{"Can only get item pairs from a mapping."};
  if (value.is_dict())
    for (const auto& [key, item] : *value.pairs()) items.push_back(ChatValue::tuple({key, item}));
  return run.generator(std::move(items));
}

ChatValue filter_first(ChatRun& run, const ChatValue& value, Arguments arguments) {
  arguments.bind("first", {});
  std::optional<ChatValue> first;
  if (value.object() != nullptr)
    first = value.object()->take_first();
  else if (value.is_text())
    first = python_item(value, 0);
  else if (value.is_list() && !value.items()->empty())
    first = value.items()->front();
  else if (const std::vector<ChatValue> items = items_of(run, value); !items.empty())
    first = items.front();
  return first ? *first : ChatValue::undefined("No first item, sequence was empty.");
}

ChatValue filter_last(ChatRun& run, const ChatValue& value, Arguments arguments) {
  arguments.bind("last", {});
  if (value.object() != nullptr || !python_is_iterable(value))
    throw ChatFailure{"'" + python_type(value) + "' object is not reversible"};
  const std::vector<ChatValue> items = items_of(run, value);
  if (items.empty()) return ChatValue::undefined("No last item, sequence was empty.");
  return items.back();
}

ChatValue filter_reverse(ChatRun& run, const ChatValue& value, Arguments arguments) {
  arguments.bind("reverse", {});
  if (value.is_text()) return python_slice(value, {}, {}, -1);
  std::vector<ChatValue> items = items_of(run, value);
  std::ranges::reverse(items);
  return run.generator(std::move(items));
}

ChatValue filter_join(ChatRun& run, const ChatValue& value, Arguments arguments) {
  const auto given = arguments.bind("join", {"d", "attribute"});
  const std::string between = given[0] ? python_text(*given[0]) : "";
  std::string out;
  bool first = true;
  for (const ChatValue& item : items_of(run, value)) {
    if (!first) out += between;
    first = false;
    out +=
        python_text(given[1] && !given[1]->is_none() ? attribute_of(run, item, *given[1]) : item);
    if (out.size() > ChatRun::kOutput) break;  // whoever gets it refuses it
  }
  return out;
}

ChatValue filter_map(ChatRun& run, const ChatValue& value, Arguments arguments) {
  std::vector<ChatValue> items =
      python_truth(value) ? items_of(run, value) : std::vector<ChatValue>{};
  if (arguments.positional.empty()) {
    const auto given = arguments.bind("map", {"attribute", "default"});
    if (!given[0]) throw ChatFailure{"map requires a filter argument"};
    for (ChatValue& item : items) {
      item = attribute_of(run, std::move(item), *given[0]);
      if (item.is_undefined() && given[1] && !given[1]->is_none()) item = *given[1];
    }
    return run.generator(std::move(items));
  }
  ChatArguments rest = arguments;
  const ChatValue name = rest.positional.front();
  rest.positional.erase(rest.positional.begin());
  const ChatFilter* const filter =
      name.is_text() ? find_chat_filter(*name.text(), run.dialect()) : nullptr;
  if (filter == nullptr) throw ChatFailure{"No filter named " + python_repr(name) + "."};
  for (ChatValue& item : items) item = run.charged(filter->apply(run, item, rest));
  return run.generator(std::move(items));
}

// The first of the items that no other goes before.
static ChatValue extreme(ChatRun& run, const ChatValue& value, Arguments arguments, bool greatest) {
  const auto given = arguments.bind(greatest ? "max" : "min", {"case_sensitive", "attribute"});
  const std::vector<ChatValue> items = items_of(run, value);
  if (items.empty()) return ChatValue::undefined("No aggregated item, sequence was empty.");
  const auto key = [&](const ChatValue& item) {
    const ChatValue own = given[1] ? attribute_of(run, item, *given[1]) : item;
    return asked(given[0]) ? own : without_case(own);
  };
  const ChatValue* best = &items.front();
  for (const ChatValue& item : items)
    if (&item != best &&
        (greatest ? python_less(key(*best), key(item)) : python_less(key(item), key(*best))))
      best = &item;
  return *best;
}

ChatValue filter_max(ChatRun& run, const ChatValue& value, Arguments arguments) {
  return extreme(run, value, arguments, true);
}
ChatValue filter_min(ChatRun& run, const ChatValue& value, Arguments arguments) {
  return extreme(run, value, arguments, false);
}

ChatValue filter_select(ChatRun& run, const ChatValue& value, Arguments arguments) {
  return selected(run, value, arguments, false, true);
}
ChatValue filter_reject(ChatRun& run, const ChatValue& value, Arguments arguments) {
  return selected(run, value, arguments, false, false);
}
ChatValue filter_selectattr(ChatRun& run, const ChatValue& value, Arguments arguments) {
  return selected(run, value, arguments, true, true);
}
ChatValue filter_rejectattr(ChatRun& run, const ChatValue& value, Arguments arguments) {
  return selected(run, value, arguments, true, false);
}

ChatValue filter_dictsort(ChatRun& run, const ChatValue& value, Arguments arguments) {
  const auto given = arguments.bind("dictsort", {"case_sensitive", "by", "reverse"});
  const std::string by = given[1] ? python_text(*given[1]) : "key";
  if (by != "key" && by != "value")
    throw ChatFailure{"You can only sort by either \"key\" or \"value\""};
  if (value.is_undefined()) throw ChatFailure{*value.undefined_message()};
  if (!value.is_dict())
    throw ChatFailure{"'" + python_type(value) + "' object has no attribute 'items'"};
  std::vector<ChatValue> pairs;
  for (const auto& [key, item] : *value.pairs()) pairs.push_back(ChatValue::tuple({key, item}));
  return ChatValue::list(sorted(run, std::move(pairs), asked(given[2]), [&](const ChatValue& pair) {
    const ChatValue& key = (*pair.items())[by == "key" ? 0 : 1];
    return asked(given[0]) ? key : without_case(key);
  }));
}

ChatValue filter_sort(ChatRun& run, const ChatValue& value, Arguments arguments) {
  const auto given = arguments.bind("sort", {"reverse", "case_sensitive", "attribute"});
  const auto with_case = [&](const ChatValue& key) {
    return asked(given[1]) ? key : without_case(key);
  };
  return ChatValue::list(
      sorted(run, items_of(run, value), asked(given[0]), [&](const ChatValue& item) {
        if (!given[2] || !given[2]->is_text())
          return with_case(given[2] ? attribute_of(run, item, *given[2]) : item);
        std::vector<ChatValue> keys;
        for (const std::string_view name : split_text(*given[2]->text(), ",", -1))
          keys.push_back(with_case(attribute_of(run, item, name)));
        return ChatValue::list(std::move(keys));
      }));
}

ChatValue filter_unique(ChatRun& run, const ChatValue& value, Arguments arguments) {
  const auto given = arguments.bind("unique", {"case_sensitive", "attribute"});
  std::vector<ChatValue> kept, keys;
  for (ChatValue& item : items_of(run, value)) {
    ChatValue key = given[1] ? attribute_of(run, item, *given[1]) : item;
    if (!asked(given[0])) key = without_case(key);
    check_hashable(key);
    run.charge(std::ssize(keys) / 4);
    if (std::ranges::any_of(keys, [&](const ChatValue& k) { return python_equal(k, key); }))
      continue;
    keys.push_back(std::move(key));
    kept.push_back(std::move(item));
  }
  return run.generator(std::move(kept));
}

ChatValue filter_sum(ChatRun& run, const ChatValue& value, Arguments arguments) {
  const auto given = arguments.bind("sum", {"attribute", "start"});
  ChatValue total = given[1].value_or(0);
  if (total.is_text()) throw ChatFailure{"sum() can't sum strings [use ''.join(seq) instead]"};
  for (const ChatValue& item : items_of(run, value))
    total = run.charged(python_binary(
        ChatOperator::add, total,
        given[0] && !given[0]->is_none() ? attribute_of(run, item, *given[0]) : item));
  return total;
}

}  // namespace mt
