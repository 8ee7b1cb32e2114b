// JsonObject: one JSON object of a tokenizer.json or config.json with the place where it stands,
// which every error names.  A member that is missing, or is of another kind than what is asked for,
// is Exit::bad_data.  Only the readers of such files include this: nvcc cannot compile simdjson.h.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace mt {

std::string json_quoted(std::string_view text);  // as JSON writes it, on one line

class JsonObject {
 public:
  // `where`: "PATH: pre_tokenizer", say.  The document that it is part of must outlive it.
  JsonObject(simdjson::dom::element element, std::string where);

  bool has(std::string_view name) const;  // and is not null
  std::vector<std::string_view> names() const;
  std::string_view text(std::string_view name) const;
  std::string_view text_or(std::string_view name, std::string_view other) const;
  bool flag(std::string_view name) const;
  bool flag_or(std::string_view name, bool other) const;
  std::int64_t number(std::string_view name, std::int64_t most) const;  // 0 to `most`, 4.0 is 4
  double real(std::string_view name) const;
  JsonObject object(std::string_view name) const;
  std::vector<JsonObject> objects(std::string_view name) const;  // of an array
  simdjson::dom::element member(std::string_view name) const;
  std::string json() const { return simdjson::minify(object_); }  // all of it, on one line

  std::string_view type() const { return text("type"); }
  const std::string& where() const { return where_; }

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(Exit::bad_data, where_, ": ", parts...);
  }

 private:
  simdjson::dom::object object_;
  std::string where_;
};

}  // namespace mt
