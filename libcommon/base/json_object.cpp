#include "base/json_object.h"

#include <optional>
#include <set>

#include "base/json.h"
#include "base/whole_number.h"

namespace mt {

using simdjson::dom::element;

std::string json_quoted(std::string_view text) { return JsonWriter().value(text).text(); }

JsonObject::JsonObject(element element, std::string where) : where_(std::move(where)) {
  if (element.get(object_)) refuse("expected a JSON object");
  std::set<std::string_view> names;
  for (const auto [name, value] : object_)
    if (!names.insert(name).second) refuse(json_quoted(name), " is there twice");
}

bool JsonObject::has(std::string_view name) const {
  element value;
  return !object_[name].get(value) && !value.is_null();
}

std::vector<std::string_view> JsonObject::names() const {
  std::vector<std::string_view> names;
  for (const auto [name, value] : object_) names.push_back(name);
  return names;
}

element JsonObject::member(std::string_view name) const {
  element value;
  if (object_[name].get(value)) refuse("no ", json_quoted(name));
  return value;
}

std::string_view JsonObject::text(std::string_view name) const {
  std::string_view value;
  if (member(name).get(value)) refuse(json_quoted(name), ": expected a string");
  return value;
}

std::string_view JsonObject::text_or(std::string_view name, std::string_view other) const {
  return has(name) ? text(name) : other;
}

bool JsonObject::flag(std::string_view name) const {
  bool value = false;
  if (member(name).get(value)) refuse(json_quoted(name), ": expected true or false");
  return value;
}

bool JsonObject::flag_or(std::string_view name, bool other) const {
  return has(name) ? flag(name) : other;
}

std::int64_t JsonObject::number(std::string_view name, std::int64_t most) const {
  const element value = member(name);
  double real = 0;
  std::optional<std::int64_t> whole;
  if (std::int64_t number = 0; !value.get(number))
    whole = number;
  else if (!value.get(real))
    whole = whole_number(real);
  if (!whole || *whole < 0 || *whole > most)
    refuse(json_quoted(name), ": expected a number from 0 to ", most);
  return *whole;
}

double JsonObject::real(std::string_view name) const {
  double value = 0;
  if (member(name).get(value)) refuse(json_quoted(name), ": expected a number");
  return value;
}

JsonObject JsonObject::object(std::string_view name) const {
  return {member(name), concat(where_, ": ", name)};
}

std::vector<JsonObject> JsonObject::objects(std::string_view name) const {
  simdjson::dom::array array;
  if (member(name).get(array)) refuse(json_quoted(name), ": expected an array");
  std::vector<JsonObject> list;
  for (const element entry : array)
    list.emplace_back(entry, concat(where_, ": ", name, "[", list.size(), "]"));
  return list;
}

}  // namespace mt
