#include "post/retrieval/dpr_file.h"

#include "base/error.h"
#include "base/input/byte_source.h"
#include "base/json_object.h"
#include "base/json_parse.h"

namespace mt {
namespace {

// ArraySplitter: finds the objects of an array by quotes and braces; what they hold is for a parser
// to judge.
class ArraySplitter {
 public:
  ArraySplitter(const std::string& path,
                const std::function<void(std::string_view, std::int64_t)>& use)
      : path_(path), use_(use) {}

  void take(std::string_view text) {
    for (const char c : text) take(c);
  }
  void finish() const {
    if (!ended_) refuse("ends early, expected an array of objects");
  }

 private:
  [[noreturn]] void refuse(const char* what) const {
    fail(Exit::bad_data, path_, ": object ", number_, ": ", what);
  }

  void take(char c) {
    if (depth_ > 0) return take_inside(c);
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') return;
    if (!begun_) {
      if (c != '[') refuse("is no array of objects");
      begun_ = true;
    } else if (ended_) {
      refuse("something is behind the array");
    } else if (c == ']' && (between_ || number_ == 0)) {
      ended_ = true;
    } else if (c == ',' && between_) {
      between_ = false;
    } else if (c == '{' && !between_) {
      object_ = c;
      depth_ = 1;
    } else {
      refuse("is no object, expected an array of them");
    }
  }

  void take_inside(char c) {
    object_ += c;
    if (quoted_) {
      if (escaped_)
        escaped_ = false;
      else if (c == '\\')
        escaped_ = true;
      else if (c == '"')
        quoted_ = false;
      return;
    }
    if (c == '"') quoted_ = true;
    if (c == '{') ++depth_;
    if (c != '}' || --depth_ > 0) return;
    use_(object_, number_++);
    between_ = true;
  }

  const std::string& path_;
  const std::function<void(std::string_view, std::int64_t)>& use_;
  std::string object_;
  std::int64_t number_ = 0;
  int depth_ = 0;
  bool begun_ = false, ended_ = false, between_ = false, quoted_ = false, escaped_ = false;
};

DprPassage passage_of(const JsonObject& object) {
  return {.title = std::string(object.text("title")), .text = std::string(object.text("text"))};
}

std::vector<DprPassage> passages_of(const JsonObject& object, const char* name) {
  std::vector<DprPassage> passages;
  for (const JsonObject& one : object.objects(name)) passages.push_back(passage_of(one));
  return passages;
}

DprQuestion question_of(const JsonObject& object) {
  DprQuestion question;
  question.question = object.text("question");
  if (question.question.ends_with('?')) question.question.pop_back();
  const std::vector<JsonObject> own = object.objects("positive_ctxs");
  if (own.empty()) object.refuse("positive_ctxs: is empty, expected a passage with the answer");
  question.own = passage_of(own.front());
  question.hard = passages_of(object, "hard_negative_ctxs");
  question.others = passages_of(object, "negative_ctxs");
  return question;
}

}  // namespace

void for_array_objects(const std::string& path,
                       const std::function<void(std::string_view, std::int64_t)>& use) {
  ByteSource source(path, [] {});
  ArraySplitter splitter(path, use);
  std::vector<char> buffer(std::size_t{1} << 16);
  while (const std::size_t count = source.read(buffer)) splitter.take({buffer.data(), count});
  splitter.finish();
}

std::vector<DprQuestion> read_dpr_file(const std::string& path) {
  std::vector<DprQuestion> questions;
  simdjson::dom::parser parser;
  for_array_objects(path, [&](std::string_view text, std::int64_t number) {
    const std::string place = concat(path, ": object ", number);
    simdjson::dom::element root;
    if (const auto error = parse_json(parser, text).get(root)) fail_json(text, place, error);
    questions.push_back(question_of(JsonObject(root, place)));
  });
  if (questions.empty()) fail(Exit::bad_data, path, ": has no questions");
  return questions;
}

}  // namespace mt
