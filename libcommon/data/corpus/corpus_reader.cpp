#include "data/corpus/corpus_reader.h"

#include <set>

#include "base/command.h"
#include "base/error.h"

namespace mt {
namespace {

std::vector<std::string> inputs_beside(std::span<const std::string> outputs,
                                       const CorpusOptions& options) {
  std::vector<std::string> inputs = expand_inputs(options.inputs);
  refuse_inputs(outputs, inputs);
  return inputs;
}

LineReader::Options reading(const CorpusOptions& options, const std::vector<std::string>& inputs,
                            const RunContext& context, std::size_t line_limit,
                            const char* limit_hint) {
  LineReader::Options result;
  result.inputs = inputs;
  result.checkpoint = [&context] { context.checkpoint(); };
  result.line_limit = line_limit;
  result.limit_hint = limit_hint;
  result.are_json = options.format == "jsonl";
  result.pass_long_lines = options.on_error != "stop";
  return result;
}

}  // namespace

void CorpusOptions::add_to(CommandLine& cl) {
  cl.option("--input", &inputs, "FILE",
            "files, patterns such as 'c4-*.json.gz', or - for stdin; plain, gzip, bzip2, zstd or "
            "Parquet");
  cl.required("--input");
  cl.option("--format", &format, "FORMAT", "jsonl: JSON lines; text: each line is a text",
            one_of({"jsonl", "text"}));
  cl.option("--json-keys", &json_keys, "KEY", "members with the text, for jsonl");
  cl.option("--on-error", &on_error, "POLICY",
            "a line that cannot be used: stop, skip, or quarantine=FILE to collect such lines");
  cl.flag("--force", &overwrite, "overwrite existing files");
}

void CorpusOptions::add_workers_to(CommandLine& cl) {
  cl.section("Speed");
  cl.option("--workers,-j", &workers, "N", "threads; 0: one per core. Changes no byte",
            at_least(0));
}

void CorpusOptions::check() const {
  const std::set<std::string> keys(json_keys.begin(), json_keys.end());
  if (keys.size() < json_keys.size()) fail(Exit::usage, "--json-keys: names a key twice");
  if (format == "text" && json_keys != CorpusOptions().json_keys)
    fail(Exit::usage, "--format text: has no keys");
}

CorpusReader::CorpusReader(const CorpusOptions& options, const RunContext& context,
                           std::span<const std::string> outputs, std::size_t line_limit,
                           const char* limit_hint)
    : options_(options),
      inputs_(inputs_beside(outputs, options)),
      log_(context.log),
      progress_(log_, "read", "bytes", stored_size(inputs_)),
      reader_(reading(options, inputs_, context, line_limit, limit_hint)),
      bad_(options.on_error, options.overwrite, inputs_, log_) {}

void CorpusReader::commit() {
  bad_.commit();
  if (bad_.count() > 0) log_.warn(concat(bad_.count(), " of ", lines_, " lines could not be used"));
}

}  // namespace mt
