#include "text/hf/hf_whole_json.h"

#include <algorithm>

#include "base/json.h"

namespace mt {
namespace {

class Processor {
 public:
  Processor(JsonWriter& json, const HfTemplate& around, const std::vector<std::string>& tokens)
      : json_(json), around_(around), tokens_(tokens) {}

  void write() {
    json_.begin_object().member("type", "TemplateProcessing");
    json_.key("single").begin_array();
    add_text("A", 0);
    json_.end_array().key("pair").begin_array();
    add_text("A", 0);
    add_text("B", 1);
    json_.end_array().key("special_tokens").begin_object();
    std::vector<std::int32_t> ids = around_.before;
    ids.insert(ids.end(), around_.after.begin(), around_.after.end());
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    for (const std::int32_t id : ids) {
      json_.key(text_of(id)).begin_object().member("id", text_of(id)).key("ids").begin_array();
      json_.value(id).end_array().key("tokens").begin_array().value(text_of(id)).end_array();
      json_.end_object();
    }
    json_.end_object().end_object();
  }

 private:
  const std::string& text_of(std::int32_t id) const {
    return tokens_[static_cast<std::size_t>(id)];
  }
  void add(const char* kind, const std::string& id, int type) {
    json_.begin_object().key(kind).begin_object().member("id", id).member("type_id", type);
    json_.end_object().end_object();
  }
  void add_text(const char* name, int type) {
    for (const std::int32_t id : around_.before) add("SpecialToken", text_of(id), type);
    add("Sequence", name, type);
    for (const std::int32_t id : around_.after) add("SpecialToken", text_of(id), type);
  }

  JsonWriter& json_;
  const HfTemplate& around_;
  const std::vector<std::string>& tokens_;
};

void add_part(const HfDocument& document, const char* name, JsonWriter& json) {
  json.key(name);
  if (document.has(name))
    json.raw(document.object(name).json());
  else
    json.null();
}

}  // namespace

std::string hf_whole_json(const HfDocument& document, const std::vector<HfAddedToken>& added,
                          const HfTemplate& around, const std::vector<std::string>& tokens) {
  JsonWriter json;
  json.begin_object().member("version", "1.0").key("truncation").null().key("padding").null();
  json.key("added_tokens").begin_array();
  for (const HfAddedToken& token : added) {
    json.begin_object().member("id", token.id).member("content", token.content);
    json.member("single_word", token.single_word).member("lstrip", token.lstrip);
    json.member("rstrip", token.rstrip).member("normalized", token.normalized);
    json.member("special", token.special).end_object();
  }
  json.end_array();
  add_part(document, "normalizer", json);
  add_part(document, "pre_tokenizer", json);
  if (around.before.empty() && around.after.empty()) {
    add_part(document, "post_processor", json);
  } else {
    json.key("post_processor");
    Processor(json, around, tokens).write();
  }
  add_part(document, "decoder", json);
  add_part(document, "model", json);
  return json.end_object().text();
}

}  // namespace mt
