// HfDocument: the parts of a tokenizer.json, some of which may be others than its file says.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_object.h"

namespace mt {

class HfDocument {
 public:
  // `file` is what errors call it.
  HfDocument(std::string_view content, const std::string& file);

  // What the file says, less what was taken away.
  bool has(std::string_view name) const;
  JsonObject object(std::string_view name) const;
  std::vector<JsonObject> objects(std::string_view name) const;  // none where there is no member
  const JsonObject& file() const { return root_; }

  // From now on a member is this, which is well-formed; "null": it is not there.
  void set(const std::string& name, const std::string& json);
  std::string changes() const;  // in words, for an identity; empty: none

 private:
  struct Part {
    simdjson::dom::parser parser;
    simdjson::dom::element value;
  };
  static simdjson::dom::element parse(Part& part, std::string_view json, const std::string& file);

  std::unique_ptr<Part> whole_;
  JsonObject root_;
  std::map<std::string, std::unique_ptr<Part>, std::less<>> others_;
};

}  // namespace mt
