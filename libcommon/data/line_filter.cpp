#include "data/line_filter.h"

#include <simdjson.h>

#include "base/command.h"

namespace mt {

void FilterOptions::add_to(CommandLine& cl) {
  cl.section("Input and output");
  cl.option("--input", &inputs, "FILE",
            "JSON-lines files, patterns, or - for stdin; plain, gzip or zstd");
  cl.required("--input");
  cl.option("--output", &output, "FILE", "lines that stay; - is stdout");
  cl.option("--json-key", &key, "KEY", "member with the text");
  cl.option("--on-error", &on_error, "POLICY",
            "a line that cannot be used: stop, skip, or quarantine=FILE to collect such lines");
  cl.flag("--force", &overwrite, "overwrite existing files");
  cl.option("--workers,-j", &workers, "N", "threads; 0: one per core. Changes no byte",
            at_least(0));
}

void FilterSummary::write(JsonWriter& json, const char* schema) const {
  json.begin_object().member("schema", schema).member("lines", lines);
  json.member("bad_lines", bad_lines).member("kept", kept).member("changed", changed);
  json.key("dropped").begin_object();
  for (const auto& [reason, count] : dropped) json.member(reason, count);
  json.end_object().end_object();
}

std::string with_text(std::string_view line, const std::string& key, std::string_view text) {
  simdjson::ondemand::parser parser;
  const simdjson::padded_string padded(line);
  simdjson::ondemand::document document = parser.iterate(padded);
  std::string_view value;  // the last of equal keys counts
  for (simdjson::ondemand::field field : document.get_object()) {
    std::string_view name;
    const bool readable = field.unescaped_key().get(name) == simdjson::SUCCESS;
    const bool wanted = readable && name == key;
    const std::string_view raw = field.value().raw_json_token();
    if (wanted) value = raw;
  }
  const auto begin = static_cast<std::size_t>(value.data() - padded.data());
  std::size_t end = line.find('"', begin) + 1;  // becomes the string's closing quote
  while (line[end] != '"') end += line[end] == '\\' ? 2 : 1;
  if (line[begin] == '[') end = line.find(']', end);  // a list of this one text
  JsonWriter json;
  json.value(text);
  return std::string(line.substr(0, begin)) + json.text() + std::string(line.substr(end + 1));
}

LineSink::LineSink(const FilterOptions& options) {
  if (options.output == "-")
    stdout_ = File::create("-");
  else
    file_.emplace(options.output, options.overwrite);
}

void LineSink::write(std::string_view line) {
  buffer_.append(line);
  buffer_ += '\n';
  if (buffer_.size() >= 1 << 20) flush();
}

void LineSink::flush() {
  file_ ? file_->write(buffer_) : stdout_.write(buffer_);
  buffer_.clear();
}

void LineSink::commit() {
  flush();
  if (file_) file_->commit();
}

}  // namespace mt
