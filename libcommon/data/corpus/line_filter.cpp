#include "data/corpus/line_filter.h"

#include <poll.h>
#include <simdjson.h>

#include <array>
#include <csignal>
#include <span>

#include "base/command.h"
#include "base/signals.h"

namespace mt {

void FilterOptions::add_to(CommandLine& cl) {
  cl.section("Input and output");
  cl.option("--input", &inputs, "FILE",
            "JSON-lines files, patterns, or - for stdin; plain, gzip, bzip2, zstd or Parquet");
  cl.required("--input");
  cl.option("--output", &output, "FILE", "lines that stay; - is stdout");
  cl.option("--json-key", &key, "KEY", "member with the text");
  cl.option("--on-error", &on_error, "POLICY",
            "a line that cannot be used: stop, skip, or quarantine=FILE to collect such lines");
  cl.option("--summary", &summary, "FILE", "write counts, and why lines went, as JSON");
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

void check_outputs(const FilterOptions& options, const std::vector<std::string>& inputs) {
  struct Output {
    const char* option;
    std::string path;
    bool is_file() const { return !path.empty() && path != "-" && !is_stream(path); }
  };
  const Output outputs[] = {{"--output", options.output},
                            {"--on-error quarantine", BadLines::quarantine_of(options.on_error)},
                            {"--summary", options.summary}};
  for (const Output& b : outputs)
    for (const Output& a : std::span(outputs, static_cast<std::size_t>(&b - outputs)))
      if (a.is_file() && b.is_file() && is_same_file(a.path, b.path))
        fail(Exit::usage, b.option, " ", b.path, ": is the file of ", a.option,
             " too; expected another");
  for (const Output* output : {&outputs[0], &outputs[2]})
    for (const std::string& input : inputs)
      if (output->is_file() && input != "-" && is_same_file(output->path, input))
        fail(Exit::usage, output->option, " ", output->path, ": is the input ", input,
             "; expected another file");
}

void check_read_beside(const FilterOptions& options, const std::vector<std::string>& files) {
  refuse_inputs(
      std::array{options.output, options.summary, BadLines::quarantine_of(options.on_error)},
      files);
}

SummaryFile::SummaryFile(const FilterOptions& options) {
  if (options.summary.empty()) return;
  if (options.summary == "-" && options.output == "-")
    fail(Exit::usage, "--summary -: the lines go to stdout; expected a file");
  if (options.summary == "-" || is_stream(options.summary))
    stream_ = options.summary;
  else
    file_.emplace(options.summary, options.overwrite);
}

void SummaryFile::commit(const FilterSummary& summary, const char* schema) {
  JsonWriter json;
  summary.write(json, schema);
  const std::string text = json.text() + "\n";
  if (stream_ == "-")
    File::create(stream_).write(text);
  else if (!stream_.empty())
    write_file_atomically(stream_, text, false);
  if (!file_) return;
  file_->write(text);
  file_->commit();
}

LineSink::LineSink(const std::string& output, bool overwrite, const RunContext& context) {
  if (output == "-")
    stream_ = File::create("-");
  else if (is_stream(output))
    stream_ = File::create_stream(output, [&] { context.checkpoint(); });
  else
    file_.emplace(output, overwrite);
  if (!file_) std::signal(SIGPIPE, SIG_IGN);
}

LineSink::LineSink(const std::string& output, bool overwrite, std::uint64_t behind) {
  file_.emplace(output, overwrite, true);
  file_->cut(behind);
}

void LineSink::write(std::string_view line) {
  buffer_.append(line);
  buffer_ += '\n';
  if (buffer_.size() >= 1 << 20) flush();
}

void LineSink::flush() {
  try {
    file_ ? file_->write(buffer_) : stream_.write(buffer_);
  } catch (const Error&) {
    pollfd stream = {stream_.descriptor(), POLLOUT, 0};
    if (!file_ && ::poll(&stream, 1, 0) > 0 && (stream.revents & POLLERR) != 0) throw Signal::pipe;
    throw;
  }
  buffer_.clear();
}

void LineSink::commit() {
  flush();
  if (file_) file_->commit();
}

}  // namespace mt
