// Lines in, lines out: JSON lines of which some are dropped and some are changed, in order, for
// `mt-preprocess clean` and `dedup`, which chain in a pipe.  A line that stays is written as it
// was, but for the text if that changed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/progress.h"
#include "data/corpus/bad_lines.h"
#include "data/corpus/json_lines.h"
#include "data/corpus/line_pipeline.h"
#include "data/corpus/preprocess.h"

namespace mt {

struct FilterOptions {
  std::vector<std::string> inputs;
  std::string output = "-";  // stdout
  std::string key = "text";
  std::string on_error = "stop";
  std::string summary = {};  // a file for counts, and why lines went, as JSON
  bool overwrite = false;
  int workers = 0;
  void add_to(CommandLine& cl);
};

struct FilterSummary {
  std::int64_t lines = 0, bad_lines = 0, kept = 0, changed = 0;
  std::map<std::string, std::int64_t> dropped;  // by reason
  void write(JsonWriter& json, const char* schema) const;
};

// The line with another text under `key`; the line is one that JsonLineParser has taken.
std::string with_text(std::string_view line, const std::string& key, std::string_view text);

// Where kept lines go: stdout or another stream, or a file that appears whole.  Throws Signal::pipe
// where nobody reads the stream any more, so that what else was begun is removed; SIGPIPE itself
// is ignored.
class LineSink {
 public:
  LineSink(const std::string& output, bool overwrite, const RunContext& context);
  // A file that goes on behind so many bytes that an earlier run wrote.
  LineSink(const std::string& output, bool overwrite, std::uint64_t behind);
  void write(std::string_view line);  // without "\n"
  void commit();

 private:
  void flush();
  std::optional<AtomicFile> file_;
  File stream_{-1, "stdout"};
  std::string buffer_;
};

// Where the summary goes, if anywhere: made before the work, so that it does not end for nothing.
class SummaryFile {
 public:
  explicit SummaryFile(const FilterOptions& options);
  void commit(const FilterSummary& summary, const char* schema);

 private:
  std::optional<AtomicFile> file_;
  std::string stream_;
};

// No two outputs are one file, and none is an input.
void check_outputs(const FilterOptions& options, const std::vector<std::string>& inputs);

// No output is one of these files, which are read beside the inputs.
void check_read_beside(const FilterOptions& options, const std::vector<std::string>& files);

// What a line becomes: dropped for a reason, changed, or neither.
struct LineFate {
  std::string dropped = {}, changed = {};
};

// Judged: what `judge` makes of a line's texts, one for each of `keys` (thread-safe, several at a
// time).  `decide` makes its fate, in the order of the input.  A line whose text is a list is bad.
template <class Judge, class Decide>
FilterSummary filter_lines(const FilterOptions& options, const std::vector<std::string>& keys,
                           const RunContext& context, const Judge& judge, const Decide& decide) {
  using Judged = decltype(judge(std::string_view(), std::vector<std::string_view>()));
  struct Judgements {
    std::vector<std::pair<std::string_view, Judged>> lines;
    std::vector<BadLine> bad;
  };
  LineReader::Options reading;
  reading.inputs = expand_inputs(options.inputs);
  reading.are_json = true;
  reading.pass_long_lines = options.on_error != "stop";
  reading.checkpoint = [&] { context.checkpoint(); };
  check_outputs(options, reading.inputs);
  LineReader reader(reading);
  BadLines bad(options.on_error, options.overwrite, reading.inputs, context.log);
  LineSink sink(options.output, options.overwrite, context);
  FilterSummary summary;
  Progress progress(context.log, "reading", "bytes", stored_size(reading.inputs));
  run_line_pipeline<Judgements>(
      reader, options.workers,
      [&](const LineBlock& block, Judgements& result) {
        result = {};
        if (!block.too_long.empty()) {
          result.bad.push_back({block.first_line, block.too_long, block.text()});
          return;
        }
        JsonLineParser parser(keys);
        for_each_line(block, [&](std::string_view line, std::int64_t number) {
          std::string wrong = parser.parse(line);
          std::vector<std::string_view> texts;
          for (std::size_t k = 0; k < keys.size() && wrong.empty(); ++k) {
            if (parser.texts()[k].size() != 1)
              wrong = "the value of \"" + keys[k] + "\" is a list, expected one text";
            else
              texts.push_back(parser.texts()[k].front());
          }
          if (wrong.empty())
            result.lines.emplace_back(line, judge(line, texts));
          else
            result.bad.push_back({number, std::move(wrong), line});
        });
      },
      [&](const LineBlock& block, Judgements& judged) {
        for (const BadLine& line : judged.bad) bad.add(block.file, line);
        summary.lines += static_cast<std::int64_t>(judged.lines.size() + judged.bad.size());
        progress.add(static_cast<std::uint64_t>(block.stored_end) - progress.done());
        for (auto& [line, judgement] : judged.lines) {
          const LineFate fate = decide(judgement);
          if (!fate.dropped.empty()) {
            ++summary.dropped[fate.dropped];
            continue;
          }
          ++summary.kept;
          summary.changed += fate.changed.empty() ? 0 : 1;
          sink.write(fate.changed.empty() ? line : std::string_view(fate.changed));
        }
      });
  progress.finish();
  sink.commit();
  bad.commit();
  summary.bad_lines = bad.count();
  return summary;
}

}  // namespace mt
