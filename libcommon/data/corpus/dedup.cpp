#include "data/corpus/dedup.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "base/command.h"
#include "base/hash.h"
#include "data/corpus/min_hash.h"
#include "data/corpus/words.h"

namespace mt {
namespace {

// What is known of a text.
struct Sketch {
  std::pair<std::uint64_t, std::uint64_t> hash;  // of its bytes
  std::optional<MinHash> words;
  bool overlaps = false;  // with an evaluation set
};

// Calls body(hash) for each run of `length` words.
template <class Body>
void for_each_ngram(const std::vector<std::uint64_t>& words, std::size_t length, Body&& body) {
  for (std::size_t i = 0; i + length <= words.size(); ++i)
    body(hash_of(std::span(words).subspan(i, length)));
}

std::unordered_set<std::uint64_t> ngrams_of(const DedupOptions& options,
                                            const RunContext& context) {
  std::unordered_set<std::uint64_t> ngrams;
  if (options.against.empty() && options.ngram != DedupOptions().ngram)
    fail(Exit::usage, "--ngram: is for --against");
  if (options.against.empty()) return ngrams;
  const auto is_stdin = [](const std::string& path) { return path == "-"; };
  if (std::ranges::any_of(options.against, is_stdin) &&
      std::ranges::any_of(options.lines.inputs, is_stdin))
    fail(Exit::usage, "--against -: --input is stdin already, which can be read once");
  LineReader::Options reading;
  reading.inputs = expand_inputs(options.against);
  check_read_beside(options.lines, reading.inputs);
  reading.are_json = true;
  reading.checkpoint = [&] { context.checkpoint(); };
  LineReader reader(reading);
  BadLines bad("stop", false, {}, context.log);
  JsonLineParser parser({options.lines.key});
  LineBlock block;
  Progress progress(context.log, "reading --against", "bytes", stored_size(reading.inputs));
  while (reader.next(block)) {
    progress.add(static_cast<std::uint64_t>(block.stored_end) - progress.done());
    for_each_line(block, [&](std::string_view line, std::int64_t number) {
      const std::string wrong = parser.parse(line);
      if (!wrong.empty()) bad.add(block.file, {number, wrong, line});
      for (const std::string_view text : parser.texts()[0])
        for_each_ngram(word_hashes(text), static_cast<std::size_t>(options.ngram),
                       [&](std::uint64_t hash) { ngrams.insert(hash); });
    });
  }
  if (ngrams.empty())
    context.log.warn(concat("--against: no text has a run of ", options.ngram,
                            " words, so none overlaps; see --ngram"));
  return ngrams;
}

}  // namespace

void DedupOptions::add_to(CommandLine& cl) {
  lines.add_to(cl);
  cl.section("What to drop");
  cl.option("--similarity", &similarity, "S",
            "texts as alike as this to an earlier one, by their runs of five words; 1: equal ones",
            between(0.5, 1));
  cl.option("--against", &against, "FILE",
            "texts that share a run of words with those of these JSON lines");
  cl.option("--ngram", &ngram, "N", "words in such a run", at_least(1));
}

FilterSummary dedup_lines(const DedupOptions& options, const RunContext& context) {
  const std::unordered_set<std::uint64_t> ngrams = ngrams_of(options, context);
  const bool near = options.similarity < 1;
  const auto judge = [&](std::string_view, const std::vector<std::string_view>& texts) {
    Hasher hasher;
    hasher.update(texts[0]);
    const auto [high, low] = hasher.digest();
    Sketch sketch = {{high, low}, {}, false};
    if (!near && ngrams.empty()) return sketch;
    const std::vector<std::uint64_t> words = word_hashes(texts[0]);
    for_each_ngram(words, static_cast<std::size_t>(options.ngram),
                   [&](std::uint64_t hash) { sketch.overlaps |= ngrams.contains(hash); });
    if (near && !words.empty()) sketch.words = min_hash(words);
    return sketch;
  };
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  MinHashIndex index;
  const auto decide = [&](const Sketch& sketch) {
    if (sketch.overlaps) return LineFate{.dropped = "overlap"};
    if (!seen.insert(sketch.hash).second) return LineFate{.dropped = "equal"};
    if (!sketch.words) return LineFate{};
    if (index.has_similar(*sketch.words, options.similarity)) return LineFate{.dropped = "similar"};
    index.add(*sketch.words);
    return LineFate{};
  };
  return filter_lines(options.lines, {options.lines.key}, context, judge, decide);
}

}  // namespace mt
