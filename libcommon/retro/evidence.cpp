#include "retro/evidence.h"

#include <charconv>

#include "base/error.h"
#include "base/input/line_reader.h"
#include "base/input/separated.h"
#include "base/utf8.h"

namespace mt {

static Passage passage_of(std::string_view line, const std::string& place) {
  bool open = false;
  std::vector<std::string> fields = separated_fields(line, '\t', true, &open);
  if (open) fail(Exit::bad_data, place, ": a quote that does not end in its line");
  if (fields.size() < 3)
    fail(Exit::bad_data, place, ": ", fields.size(), " columns, expected id, text and title");
  Passage passage{.text = std::move(fields[1]), .title = std::move(fields[2])};
  const std::string& id = fields[0];
  const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), passage.id);
  if (error != std::errc() || end != id.data() + id.size())
    fail(Exit::bad_data, place, ": id \"", replace_invalid_utf8(id), "\", expected an integer");
  return passage;
}

void for_passages(const std::string& path, std::size_t most, const std::function<void()>& poll,
                  const std::function<void(std::span<const Passage> passages)>& use) {
  LineReader reader({.inputs = expand_inputs({path}), .checkpoint = poll});
  LineBlock block;
  bool first = true;
  std::vector<Passage> passages;
  const auto give = [&](std::size_t at_least) {
    if (passages.size() < at_least) return;
    use(passages);
    passages.clear();
  };
  while (reader.next(block))
    for_each_line(block, [&](std::string_view line, std::int64_t number) {
      if (!first) passages.push_back(passage_of(line, concat(path, ":", number)));
      first = false;
      give(most);
    });
  if (first) fail(Exit::bad_data, path, ": is empty, expected a line that names the columns");
  give(1);
}

}  // namespace mt
