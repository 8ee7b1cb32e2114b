#include "text/hf/hf_template.h"

#include "base/json_object.h"

namespace mt {
namespace {

class TemplateReader {
 public:
  explicit TemplateReader(std::int32_t vocab_size) : last_id_(vocab_size - 1) {}

  void read(const JsonObject& object) {
    const std::string_view type = object.type();
    if (type == "Sequence") {
      for (const JsonObject& part : object.objects("processors")) read(part);
    } else if (type == "TemplateProcessing") {
      start(object);
      read_single(object);
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      start(object);
      result.before = {pair_id(object, "cls")};
      result.after = {pair_id(object, "sep")};
    } else if (type != "ByteLevel") {
      object.refuse("the post-processor ", json_quoted(type), " is not known");
    }
  }

  HfTemplate result;

 private:
  void start(const JsonObject& object) {
    if (found_) object.refuse("a second template, expected one");
    found_ = true;
  }

  void read_single(const JsonObject& object) {
    bool text_seen = false;
    for (const JsonObject& piece : object.objects("single")) {
      if (piece.has("SpecialToken")) {
        std::vector<std::int32_t>& ids = text_seen ? result.after : result.before;
        add_ids(object.object("special_tokens").object(piece.object("SpecialToken").text("id")),
                ids);
      } else {
        const std::string_view name = piece.object("Sequence").text("id");
        if (name != "A" || text_seen)
          piece.refuse("sequence ", json_quoted(name), ", expected \"A\" once");
        text_seen = true;
      }
    }
    if (!text_seen) object.refuse("\"single\": no sequence \"A\"");
  }

  void add_ids(const JsonObject& token, std::vector<std::int32_t>& ids) const {
    simdjson::dom::array list;
    if (token.member("ids").get(list)) token.refuse("\"ids\": expected an array");
    for (const simdjson::dom::element id : list) ids.push_back(checked(token, id));
  }

  // The id of ["TOKEN", ID].
  std::int32_t pair_id(const JsonObject& object, std::string_view name) const {
    simdjson::dom::array pair;
    if (object.member(name).get(pair) || pair.size() != 2)
      object.refuse(json_quoted(name), ": expected a token and its id");
    return checked(object, pair.at(1).value());
  }

  std::int32_t checked(const JsonObject& object, simdjson::dom::element element) const {
    std::int64_t id = 0;
    if (element.get(id) || id < 0 || id > last_id_)
      object.refuse("the id ", simdjson::minify(element), ", expected 0 to ", last_id_);
    return static_cast<std::int32_t>(id);
  }

  std::int32_t last_id_;
  bool found_ = false;
};

}  // namespace

HfTemplate read_hf_template(const JsonObject& post_processor, std::int32_t vocab_size) {
  TemplateReader reader(vocab_size);
  reader.read(post_processor);
  return reader.result;
}

}  // namespace mt
