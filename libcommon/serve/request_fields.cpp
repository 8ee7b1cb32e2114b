#include "serve/request_fields.h"

#include <algorithm>

#include "base/error.h"
#include "serve/request_json.h"

namespace mt {

using simdjson::dom::element;

RequestFields::RequestFields(std::string_view json) {
  element body;
  if (const auto error = parse_request(parser_, json).get(body); error == simdjson::DEPTH_ERROR)
    throw ApiError{.message = concat("the body has more than ", kMostDepth,
                                     " lists and objects in each other")};
  else if (error != simdjson::SUCCESS)
    throw ApiError{.message = "the body is no JSON"};
  if (body.get(object_) != simdjson::SUCCESS)
    throw ApiError{.message = "the body is no JSON object"};
}

void RequestFields::wrong(std::string_view name, std::string_view expected) {
  throw ApiError{.message = concat(name, ": expected ", expected), .param = std::string(name)};
}

std::optional<element> RequestFields::any(std::string_view name) {
  asked_.emplace(name);
  element value;
  if (object_[name].get(value) != simdjson::SUCCESS || value.is_null()) return {};
  return value;
}

std::optional<std::string> RequestFields::text(std::string_view name) {
  const std::optional<element> value = any(name);
  if (!value) return {};
  std::string_view text;
  if (value->get(text) != simdjson::SUCCESS) wrong(name, "a string");
  return std::string(text);
}

std::optional<bool> RequestFields::flag(std::string_view name) {
  const std::optional<element> value = any(name);
  if (!value) return {};
  bool truth = false;
  if (value->get(truth) != simdjson::SUCCESS) wrong(name, "true or false");
  return truth;
}

static std::int64_t integer_of(std::string_view name, element value, std::int64_t low,
                               std::int64_t high) {
  std::int64_t number = 0;
  if (value.get(number) != simdjson::SUCCESS || number < low || number > high)
    RequestFields::wrong(name, concat("an integer from ", low, " to ", high));
  return number;
}

std::optional<std::int64_t> RequestFields::integer(std::string_view name, std::int64_t low,
                                                   std::int64_t high) {
  const std::optional<element> value = any(name);
  if (!value) return {};
  return integer_of(name, *value, low, high);
}

std::optional<double> RequestFields::real(std::string_view name, double low, double high,
                                          bool above) {
  const std::optional<element> value = any(name);
  if (!value) return {};
  double number = 0;
  if (!value->is_number() || value->get(number) != simdjson::SUCCESS ||
      !(low <= number && number <= high) || (above && number == low))
    wrong(name, concat("a number ", above ? "above " : "from ", low, " to ", high));
  return number;
}

std::vector<std::string> RequestFields::texts(std::string_view name, std::size_t most) {
  const std::optional<element> value = any(name);
  std::vector<std::string> texts;
  if (!value) return texts;
  const auto add = [&](element one) {
    std::string_view text;
    if (one.get(text) != simdjson::SUCCESS || text.empty() || texts.size() == most)
      wrong(name, concat("a string, or a list of at most ", most, ", none of them empty"));
    texts.emplace_back(text);
  };
  if (simdjson::dom::array list; value->get(list) == simdjson::SUCCESS)
    for (const element one : list) add(one);
  else
    add(*value);
  return texts;
}

std::vector<std::int64_t> RequestFields::integers(std::string_view name, std::int64_t low,
                                                  std::int64_t high, std::size_t most) {
  const std::optional<element> value = any(name);
  std::vector<std::int64_t> numbers;
  if (!value) return numbers;
  simdjson::dom::array list;
  if (value->get(list) != simdjson::SUCCESS) wrong(name, "a list of integers");
  if (list.size() > most) wrong(name, concat("at most ", most, " integers"));
  for (const element one : list) numbers.push_back(integer_of(name, one, low, high));
  return numbers;
}

void RequestFields::pass_over(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) asked_.emplace(name);
}

void RequestFields::refuse(std::string_view name, std::string_view why,
                           std::initializer_list<std::string_view> unless) {
  const std::optional<element> value = any(name);
  if (value && std::ranges::count(unless, simdjson::minify(*value)) == 0)
    throw ApiError{.message = concat(name, ": ", why), .param = std::string(name)};
}

std::vector<std::string> RequestFields::unknown() const {
  std::vector<std::string> names;
  for (const auto& [key, value] : object_)
    if (!asked_.contains(key)) names.emplace_back(key);
  names.insert(names.end(), further_.begin(), further_.end());
  return names;
}

}  // namespace mt
