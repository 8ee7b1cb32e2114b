// CorpusReader: texts from which something is learnt, a vocabulary or a model of Punkt: those in
// JSON lines, or the lines of text files.  It is read once, in blocks that are worked on side by
// side.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/input/line_reader.h"
#include "base/input/text_lines.h"
#include "base/progress.h"
#include "base/run_context.h"
#include "data/corpus/bad_lines.h"
#include "data/corpus/json_lines.h"
#include "data/corpus/line_pipeline.h"

namespace mt {

struct CorpusOptions {
  std::vector<std::string> inputs;
  std::string format = "jsonl";  // or text: every line with its newline is a text
  std::vector<std::string> json_keys = {"text"};
  std::string on_error = "stop";
  bool overwrite = false;
  int workers = 0;

  void add_to(CommandLine& cl);          // all but the following
  void add_workers_to(CommandLine& cl);  // a section of its own
  void check() const;                    // throws Exit::usage
};

class CorpusReader {
 public:
  // `options` and `context` must outlive it.  `outputs`: files that will be written, and so are no
  // inputs.  `line_limit`: bytes; of a longer line the error tells the hint too.
  CorpusReader(const CorpusOptions& options, const RunContext& context,
               std::span<const std::string> outputs, std::size_t line_limit,
               const char* limit_hint);

  // Learns from every block: learn(each_text, result) calls each_text(add) once, which calls
  // add(text) for the texts of a block in their order; several do so at a time.  finish(result)
  // gets the results in the order of the blocks, one after another.
  template <class Result, class Learn, class Finish>
  void read(const Learn& learn, const Finish& finish);

  void commit();  // after what was learnt: lines that could not be used are kept and told

  std::int64_t input_files() const { return static_cast<std::int64_t>(reader_.inputs().size()); }
  std::int64_t input_bytes() const { return reader_.stored_bytes(); }
  std::int64_t lines() const { return lines_; }
  std::int64_t bad_lines() const { return bad_.count(); }

 private:
  struct Lines {
    std::vector<BadLine> bad;
    std::int64_t count = 0;
  };
  template <class Add>
  Lines add_json_lines(const LineBlock& block, const Add& add) const;
  template <class Add>
  Lines add_text_lines(const LineBlock& block, const Add& add) const;

  const CorpusOptions& options_;
  std::vector<std::string> inputs_;
  Log log_;
  Progress progress_;
  LineReader reader_;
  BadLines bad_;
  std::int64_t lines_ = 0;
};

template <class Add>
CorpusReader::Lines CorpusReader::add_json_lines(const LineBlock& block, const Add& add) const {
  Lines lines;
  JsonLineParser parser(options_.json_keys);
  for_each_line(block, [&](std::string_view line, std::int64_t number) {
    ++lines.count;
    std::string wrong = parser.parse(line);
    if (!wrong.empty()) {
      lines.bad.push_back({number, std::move(wrong), line});
      return;
    }
    for (const auto& texts : parser.texts())
      for (const std::string_view text : texts) add(text);
  });
  return lines;
}

template <class Add>
CorpusReader::Lines CorpusReader::add_text_lines(const LineBlock& block, const Add& add) const {
  Lines lines;
  TextLines texts(block);
  for (TextLines::Line line; texts.next(line); ++lines.count)
    if (line.wrong == nullptr)
      add(line.text);
    else
      lines.bad.push_back({line.number, line.wrong, line.line});
  return lines;
}

template <class Result, class Learn, class Finish>
void CorpusReader::read(const Learn& learn, const Finish& finish) {
  struct Learnt {
    Lines lines;
    Result result;
  };
  run_line_pipeline<Learnt>(
      reader_, options_.workers,
      [&](const LineBlock& block, Learnt& learnt) {
        const auto each_text = [&](const auto& add) {
          if (!block.too_long.empty())
            learnt.lines = {{{block.first_line, block.too_long, block.text()}}, 1};
          else
            learnt.lines =
                options_.format == "text" ? add_text_lines(block, add) : add_json_lines(block, add);
        };
        learn(each_text, learnt.result);
      },
      [&](const LineBlock& block, Learnt& learnt) {
        for (const BadLine& line : learnt.lines.bad) bad_.add(block.file, line);
        lines_ += learnt.lines.count;
        finish(learnt.result);
        progress_.add(static_cast<std::uint64_t>(block.stored_end) - progress_.done());
      });
  progress_.finish();
}

}  // namespace mt
