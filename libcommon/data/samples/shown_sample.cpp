#include "data/samples/shown_sample.h"

#include "base/error.h"
#include "base/json.h"
#include "base/json_object.h"
#include "base/memory.h"
#include "text/tokenizer.h"

namespace mt {

std::vector<std::string> ShownSample::lines() const {
  std::vector<std::string> lines = {
      concat(file, ", sentences ", sentences.begin, " to ", sentences.end, what)};
  for (const Text& text : texts) lines.push_back(concat(text.name, ": ", json_quoted(text.text)));
  return lines;
}

void ShownSample::write(JsonWriter& json) const {
  json.member("file", file).key("sentences").begin_array();
  json.value(sentences.begin).value(sentences.end).end_array();
  for (const auto& [name, value] : facts) json.member(name, value);
  for (const auto& [name, values] : fields) {
    json.key(name).begin_array();
    for (const std::int32_t value : values) json.value(value);
    json.end_array();
  }
}

void expect_room_for_fields(std::int64_t fields, std::int64_t tokens) {
  expect_memory(2 * sizeof(std::int32_t) * static_cast<std::uint64_t>(fields * tokens),
                concat("a sample of ", tokens, " tokens"));  // as it is made, and as it is shown
}

std::string marked_text(const Tokenizer& tokenizer, std::span<const std::int32_t> tokens,
                        std::span<const std::int32_t> labels) {
  std::string text;
  const auto add = [&](std::span<const std::int32_t> run) {
    if (run.empty()) return;
    if (!text.empty()) text += ' ';
    text += tokenizer.decode_text(run);
  };
  std::size_t begin = 0;  // of what is not in `text` yet
  for (std::size_t i = 0; i < labels.size() && i < tokens.size(); ++i) {
    if (labels[i] < 0) continue;
    add(tokens.subspan(begin, i - begin));
    add(tokens.subspan(i, 1));
    text.append("{").append(tokenizer.decode_text(labels.subspan(i, 1))).append("}");
    begin = i + 1;
  }
  add(tokens.subspan(begin));
  return text;
}

}  // namespace mt
