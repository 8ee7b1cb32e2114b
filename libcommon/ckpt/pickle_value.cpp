#include <bit>
#include <cassert>

#include "base/error.h"
#include "ckpt/pickle.h"

namespace mt {

// An object's node: text "R" (REDUCE) or "N" (NEWOBJ), and "S" after it once it has a state; items,
// of which there are two until it has others:
enum ObjectPart { kCallable, kArgs, kKwargs, kState, kAppended, kSetItems, kObjectParts };

static const std::vector<PyValue> kNoItems;

PyValue PyValue::big_integer(std::string content) {
  const auto sign = [&] { return content.empty() ? 0 : (content.back() & 0x80) ? 0xFF : 0; };
  if (content.size() <= 8) {
    std::uint64_t number = sign() ? ~std::uint64_t{0} : 0;
    for (std::size_t i = content.size(); i-- > 0;)
      number = number << 8 | static_cast<unsigned char>(content[i]);
    return static_cast<std::int64_t>(number);
  }
  const auto redundant = [&] {  // the last byte only repeats the sign of the one before
    const int byte = static_cast<unsigned char>(content.back());
    return byte == sign() && ((content[content.size() - 2] & 0x80) ? 0xFF : 0) == byte;
  };
  while (content.size() > 8 && redundant()) content.pop_back();
  if (content.size() == 8) return big_integer(std::move(content));
  return {Kind::big_integer, std::move(content), {}};
}

PyValue PyValue::dict(std::vector<std::pair<PyValue, PyValue>> entries) {
  PyValue value(Kind::dict, {}, {});
  for (auto& entry : entries) value.set_item(std::move(entry.first), std::move(entry.second));
  return value;
}

PyValue PyValue::global(std::string_view module, std::string_view name) {
  return {Kind::global, std::string(module).append("\n").append(name), {}};
}

PyValue PyValue::object(PyValue callable, PyValue args, bool by_newobj, PyValue kwargs) {
  PyValue value(Kind::object, by_newobj ? "N" : "R", {});
  value.node_->items = {std::move(callable), std::move(args)};
  if (!kwargs.is_none()) value.own_part(kKwargs) = std::move(kwargs);
  return value;
}

PyValue& PyValue::own_part(std::size_t index) {
  node_->items.resize(kObjectParts);
  return node_->items[index];
}

PyValue PyValue::call(PyValue callable, std::vector<PyValue> args) {
  return object(std::move(callable), tuple(std::move(args)), false, {});
}

PyValue PyValue::make(PyValue type) { return object(std::move(type), tuple(), true, {}); }

PyValue PyValue::make(PyValue type, PyValue state) {
  PyValue value = make(std::move(type));
  value.set_state(std::move(state));
  return value;
}

std::string_view name_of(PyValue::Kind kind) {
  constexpr std::string_view kNames[] = {
      "None",      "a bool",         "an int",  "a large int", "a float", "a str",
      "bytes",     "a list",         "a tuple", "a set",       "a dict",  "a class or function",
      "an object", "a persistent id"};
  return kNames[static_cast<int>(kind)];
}

void PyValue::expect(Kind kind, std::string_view where) const {
  if (kind_ != kind)
    fail(Exit::bad_data, where, ": is ", name_of(kind_), ", expected ", name_of(kind));
}

bool PyValue::as_bool(std::string_view where) const {
  expect(Kind::boolean, where);
  return integer_ != 0;
}

std::int64_t PyValue::as_integer(std::string_view where) const {
  expect(Kind::integer, where);
  return integer_;
}

double PyValue::as_real(std::string_view where) const {
  if (kind_ == Kind::integer) return static_cast<double>(integer_);
  expect(Kind::real, where);
  return real_;
}

const std::string& PyValue::as_string(std::string_view where) const {
  expect(Kind::string, where);
  return node_->text;
}

const std::string& PyValue::as_bytes(std::string_view where) const {
  if (kind_ != Kind::big_integer) expect(Kind::bytes, where);
  return node_->text;
}

const std::vector<PyValue>& PyValue::as_items(std::string_view where) const {
  if (kind_ != Kind::tuple && kind_ != Kind::set) expect(Kind::list, where);
  return node_->items;
}

const std::vector<PyValue>& PyValue::entries(std::string_view where) const {
  if (kind_ == Kind::object) {
    if (module() == "collections" || !set_items().empty()) return set_items();
    if (state() != nullptr && state()->is(Kind::dict)) return state()->node_->items;
  }
  expect(Kind::dict, where);
  return node_->items;
}

const PyValue* PyValue::find(std::string_view key) const {
  if (kind_ != Kind::dict && kind_ != Kind::object) return nullptr;
  if (kind_ == Kind::object && set_items().empty() && state() == nullptr) return nullptr;
  if (kind_ == Kind::object && module() != "collections" && set_items().empty() &&
      !state()->is(Kind::dict))
    return nullptr;
  const std::vector<PyValue>& all = entries("value");
  for (std::size_t i = all.size(); i >= 2; i -= 2) {
    const PyValue& candidate = all[i - 2];
    if (candidate.is(Kind::string) && candidate.node_->text == key) return &all[i - 1];
  }
  return nullptr;
}

const PyValue& PyValue::at(std::string_view key, std::string_view where) const {
  const PyValue* const found = find(key);
  if (found == nullptr) fail(Exit::bad_data, where, ": has no `", key, "`");
  return *found;
}

std::string_view PyValue::module() const {
  if (kind_ == Kind::object) return callable().is(Kind::global) ? callable().module() : "";
  if (kind_ != Kind::global) return {};
  return std::string_view(node_->text).substr(0, node_->text.find('\n'));
}

std::string_view PyValue::name() const {
  if (kind_ == Kind::object) return callable().is(Kind::global) ? callable().name() : "";
  if (kind_ != Kind::global) return {};
  return std::string_view(node_->text).substr(node_->text.find('\n') + 1);
}

bool PyValue::is_global(std::string_view module_, std::string_view name_) const {
  return kind_ == Kind::global && module() == module_ && name() == name_;
}

bool PyValue::is_object(std::string_view module_, std::string_view name_) const {
  return kind_ == Kind::object && callable().is_global(module_, name_);
}

const PyValue& PyValue::persistent_id() const {
  assert(kind_ == Kind::persistent);
  return node_->items[0];
}

const PyValue& PyValue::callable() const {
  assert(kind_ == Kind::object);
  return node_->items[kCallable];
}

const std::vector<PyValue>& PyValue::part(std::size_t index) const {
  assert(kind_ == Kind::object);
  if (index >= node_->items.size() || node_->items[index].is_none()) return kNoItems;
  return node_->items[index].node_->items;
}

const std::vector<PyValue>& PyValue::args() const { return part(kArgs); }
const std::vector<PyValue>& PyValue::appended() const { return part(kAppended); }
const std::vector<PyValue>& PyValue::set_items() const { return part(kSetItems); }

const PyValue* PyValue::kwargs() const {
  assert(kind_ == Kind::object);
  if (node_->items.size() < kObjectParts || node_->items[kKwargs].is_none()) return nullptr;
  return &node_->items[kKwargs];
}

const PyValue* PyValue::state() const {
  assert(kind_ == Kind::object);
  return node_->text.ends_with('S') ? &node_->items[kState] : nullptr;
}

bool PyValue::by_newobj() const {
  assert(kind_ == Kind::object);
  return node_->text.starts_with('N');
}

void PyValue::append(PyValue item) {
  if (kind_ == Kind::object) {
    PyValue& held = own_part(kAppended);
    if (held.is_none()) held = list();
    return held.append(std::move(item));
  }
  assert(kind_ == Kind::list || kind_ == Kind::set);
  node_->items.push_back(std::move(item));
}

void PyValue::set_item(PyValue key, PyValue value) {
  if (kind_ == Kind::object) {
    PyValue& held = own_part(kSetItems);
    if (held.is_none()) held = dict();
    return held.set_item(std::move(key), std::move(value));
  }
  assert(kind_ == Kind::dict);
  node_->items.push_back(std::move(key));
  node_->items.push_back(std::move(value));
}

void PyValue::set_state(PyValue state) {
  assert(kind_ == Kind::object);
  own_part(kState) = std::move(state);
  if (!node_->text.ends_with('S')) node_->text += 'S';
}

bool operator==(const PyValue& a, const PyValue& b) {
  if (a.kind_ != b.kind_) return false;
  if (a.kind_ == PyValue::Kind::real)
    return std::bit_cast<std::uint64_t>(a.real_) == std::bit_cast<std::uint64_t>(b.real_);
  if (a.node_ == b.node_) return a.node_ != nullptr || a.integer_ == b.integer_;
  return a.node_->text == b.node_->text && a.node_->items == b.node_->items;
}

}  // namespace mt
