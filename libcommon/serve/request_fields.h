// RequestFields: the members of a request's JSON object, each read once by its name and with its
// type and range; what does not fit throws ApiError with status 400, which names the field.  null
// is as good as absent.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api_error.h"

namespace mt {

class RequestFields {
 public:
  // The JSON is that of a body: an object of at most 64 lists and objects in each other.
  explicit RequestFields(std::string_view json);

  std::optional<simdjson::dom::element> any(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high);
  // Numbers from `low` to `high`; without `low` itself if it is `above`.
  std::optional<double> real(std::string_view name, double low, double high, bool above = false);
  std::vector<std::string> texts(std::string_view name, std::size_t most);  // one, or a list
  std::vector<std::int64_t> integers(std::string_view name, std::int64_t low, std::int64_t high,
                                     std::size_t most = SIZE_MAX);

  // Has a field that is known and does nothing here passed over.
  void pass_over(std::initializer_list<std::string_view> names);
  // Refuses a field that asks for something that is not done, unless its value is one of these
  // JSONs.
  void refuse(std::string_view name, std::string_view why,
              std::initializer_list<std::string_view> unless = {});
  // The members that nobody has asked for, and those of members that were added.
  std::vector<std::string> unknown() const;
  void add_unknown(std::string name) { further_.push_back(std::move(name)); }

  [[noreturn]] static void wrong(std::string_view name, std::string_view expected);

 private:
  simdjson::dom::parser parser_;
  simdjson::dom::object object_;
  std::set<std::string, std::less<>> asked_;
  std::vector<std::string> further_;  // that are unknown
};

}  // namespace mt
