#include "post/data/read_examples.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "base/input/text_lines.h"
#include "base/threads.h"
#include "data/corpus/bad_lines.h"
#include "data/energon/energon_reader.h"
#include "data/energon/metadataset.h"
#include "data/images/line_images.h"
#include "post/data/example_maker.h"

namespace mt {
namespace {

constexpr std::size_t kBlocksAtOnce = 32, kSamplesAtOnce = 256;
constexpr std::int64_t kChecked = 100;  // lines of a file, for what is wrong with all

// What became of a line.
struct Made {
  std::int64_t number = 0;
  std::string_view line;
  std::vector<Example> examples = {};
  std::string wrong = {};  // without the place, where it has none
  bool held_out = false;
};

// Some lines of a file, or some samples of a shard of an Energon folder.
struct Part {
  std::string file = {};
  LineBlock lines = {};
  std::vector<EnergonSample> samples = {};
};

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

class Reader {
 public:
  Reader(const ReadOptions& options, const ExampleMaker& maker, const Log& log)
      : options_(options), maker_(maker), log_(log) {}

  ExampleSet read(BadLines& bad) {
    const std::int64_t before = bad.count();
    std::vector<std::string> files;
    for (const std::string& file : options_.files)
      if (names_energon(file)) {
        read_lines(std::exchange(files, {}), bad);
        for (const EnergonSource& source : energon_sources(file, options_.energon_part))
          read_folder(source, bad);
      } else {
        files.push_back(file);
      }
    read_lines(files, bad);
    set_.bad = bad.count() - before;
    return std::move(set_);
  }

 private:
  bool is_full() const { return options_.most > 0 && std::ssize(set_.train) >= options_.most; }

  void read_lines(const std::vector<std::string>& files, BadLines& bad) {
    if (files.empty()) return;
    LineReader reader({.inputs = expand_inputs(files), .pass_long_lines = true, .are_json = true});
    take_all(bad, [&](Part& part) {
      const bool more = reader.next(part.lines);
      part.file = part.lines.file;
      return more;
    });
  }

  // The samples of a part, each read once.  What is learnt of them comes as often as the source
  // says; of a fraction the first samples do.
  void read_folder(const EnergonSource& source, BadLines& bad) {
    const EnergonFolder folder(source.folder);
    const std::vector<EnergonFolder::Shard> shards = folder.part(source.part);
    double all = 0;
    for (const EnergonFolder::Shard& shard : shards) all += static_cast<double>(shard.samples);
    const double whole = std::floor(source.repetitions);
    EnergonReader reader(folder, shards);
    const std::size_t begin = set_.train.size();
    read_samples(reader, std::llround((source.repetitions - whole) * all), bad);
    const std::size_t of_fraction = set_.train.size();
    if (whole == 0) return;
    read_samples(reader, std::numeric_limits<std::int64_t>::max(), bad);
    const std::size_t end = set_.train.size();
    for (double i = 1; i < whole && !is_full(); ++i) repeat(begin, end);
    repeat(begin, of_fraction);
  }

  // The next samples, `left` at most.
  void read_samples(EnergonReader& reader, std::int64_t left, BadLines& bad) {
    EnergonSample ahead;
    const auto next = [&] { return left-- > 0 && reader.next(ahead); };
    bool more = next();
    take_all(bad, [&](Part& part) {
      if (!more) return false;
      part.file = ahead.shard;
      while (more && ahead.shard == part.file && part.samples.size() < kSamplesAtOnce) {
        part.samples.push_back(std::move(ahead));
        more = next();
      }
      return true;
    });
  }

  void repeat(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end && !is_full(); ++i) {
      Example again = set_.train[i];
      set_.train.push_back(std::move(again));
    }
  }

  // next(part) reads one, and is false at the end.
  template <class Next>
  void take_all(BadLines& bad, const Next& next) {
    std::vector<Part> parts;
    for (bool more = true; more && !is_full();) {
      Part part;
      more = next(part);
      if (more) parts.push_back(std::move(part));
      if (more && parts.size() < kBlocksAtOnce) continue;
      take(parts, bad);
      parts.clear();
    }
  }

  void take(const std::vector<Part>& parts, BadLines& bad) {
    std::vector<std::optional<LineKind>> kinds;
    for (const Part& part : parts) kinds.push_back(kind_of(part));
    std::vector<std::vector<Made>> made(parts.size());
    Workers(options_.threads).run([&] {
      parallel_for_ordered_errors(std::ssize(parts), [&](std::int64_t i) {
        const auto at = static_cast<std::size_t>(i);
        made[at] = make(parts[at], kinds[at]);
      });
    });
    for (std::size_t i = 0; i < parts.size(); ++i)
      for (Made& one : made[i]) {
        if (is_full()) return;
        ++set_.lines;
        if (!one.examples.empty())
          keep(std::move(one));
        else
          bad.add(parts[i].file, {.number = one.number, .what = one.wrong, .line = one.line});
      }
  }

  // By the first line of the file that has one.
  std::optional<LineKind> kind_of(const Part& part) {
    if (part.file != file_) {
      file_ = part.file;
      kind_.reset();
    }
    const auto look = [&](std::string_view line, std::int64_t number) {
      if (kind_ || is_blank(line)) return;
      try {
        kind_ = maker_.kind_of_file(line, concat(file_, ":", number));
      } catch (const Error&) {  // told of when the line itself is made
      }
    };
    if (!kind_) for_each_line(part.lines, look);
    for (const EnergonSample& sample : part.samples) look(sample.line, sample.number);
    return kind_;
  }

  std::vector<Made> make(const Part& part, std::optional<LineKind> kind) const {
    std::vector<Made> all;
    for (const EnergonSample& sample : part.samples) {
      Made& made = all.emplace_back(
          Made{.number = sample.number, .line = sample.line, .wrong = sample.wrong});
      make(made, part.file, kind, &sample);
    }
    TextLines lines(part.lines);
    for (TextLines::Line line; lines.next(line);) {
      if (is_blank(line.line)) continue;
      Made& made = all.emplace_back(Made{.number = line.number, .line = line.line});
      if (!part.lines.too_long.empty()) made.wrong = part.lines.too_long;
      if (line.wrong != nullptr) made.wrong = line.wrong;
      make(made, part.file, kind, nullptr);
    }
    return all;
  }

  // Makes the examples of a line, or says what is wrong with it.
  void make(Made& made, const std::string& file, std::optional<LineKind> kind,
            const EnergonSample* sample) const {
    if (!made.wrong.empty()) return;
    const std::string place = concat(file, ":", made.number);
    try {
      made.examples = maker_.make(made.line, kind, place, made.number <= kChecked);
      for (Example& example : made.examples) {
        if (sample == nullptr)
          find_images(example, file, place);
        else if (!example.images.empty())
          example.images = sample->images;
        if (maker_.reads_images()) maker_.place_images(example, place);
      }
    } catch (const Error& error) {
      if (error.code() != Exit::bad_data) throw;
      made.examples.clear();
      made.wrong = error.what();
      if (made.wrong.starts_with(place + ": ")) made.wrong.erase(0, place.size() + 2);
      return;
    }
    for (Example& example : made.examples) {
      example.file = file;
      example.line = made.number;
    }
    made.held_out = is_held_out(made.line);
  }

  // A name is of a file beside the lines.
  static void find_images(Example& example, const std::string& file, const std::string& place) {
    namespace fs = std::filesystem;
    for (FilePart& image : example.images) {
      const fs::path beside = file == "-" ? fs::path() : fs::path(file).parent_path();
      image.path = (beside / image.path).string();  // an absolute name stays
      check_image_is_there(image.path, place);
    }
  }

  bool is_held_out(std::string_view line) const {
    if (options_.held_out == 0) return false;
    Hasher hasher;
    hasher.update(line);
    return static_cast<double>(hasher.digest().low) < options_.held_out * 0x1p64;
  }

  void keep(Made made) {
    std::vector<Example>& to = made.held_out ? set_.held_out : set_.train;
    const auto together = static_cast<std::size_t>(options_.together);
    for (std::size_t i = 0; i < made.examples.size(); i += together)
      keep(std::span(made.examples).subspan(i, together), to);
  }

  void keep(std::span<Example> unit, std::vector<Example>& to) {
    const Example& first = unit.front();
    std::int64_t size = 0;
    for (const Example& example : unit) {
      size += example.size();
      if (example.prompt_differs && !std::exchange(warned_of_prompt_, true))
        log_.warn(concat(example.file, ":", example.line,
                         ": the prompt alone gives other tokens than the text begins with: a model "
                         "that is asked so has learnt something else"));
    }
    const std::int64_t target = first.source > 0 ? size - first.source : 0;
    if (options_.longest == 0 ||
        (size - target <= options_.longest && target <= options_.longest_target))
      return add(to, unit);
    ++set_.too_long;
    if (options_.overlong == "drop") {
      log_.detail(concat(first.file, ":", first.line, ": ", size - target,
                         " tokens, longer than --seq-length ", options_.longest,
                         target > 0
                             ? concat(", or a target of ", target, ", than --decoder-seq-length ",
                                      options_.longest_target)
                             : ""));
      return;
    }
    if (target > 0) {
      Example cut = cut_pair(first);
      return add(to, std::span(&cut, 1));
    }
    const std::int64_t share = options_.longest / options_.together;
    for (std::int64_t begin = 0; begin < size; begin += share) {
      std::vector<Example> parts;
      for (const Example& example : unit) parts.push_back(part_of(example, begin, share));
      add(to, parts);
      if (options_.overlong == "cut") return;
    }
  }

  Example cut_pair(const Example& pair) const {
    Example cut = pair;
    cut.ids.clear();
    const auto take = [&](std::int64_t begin, std::int64_t end, std::int64_t most) {
      const std::int64_t kept = std::min(end - begin, most);
      cut.ids.insert(cut.ids.end(), pair.ids.begin() + begin, pair.ids.begin() + begin + kept);
      cut.ids.back() = pair.ids[static_cast<std::size_t>(end - 1)];
    };
    take(0, pair.source, options_.longest);
    cut.source = cut.size();
    take(pair.source, pair.size(), options_.longest_target);
    cut.learnt.assign(cut.ids.size(), true);
    std::fill_n(cut.learnt.begin(), cut.source, false);
    return cut;
  }

  static Example part_of(const Example& example, std::int64_t begin, std::int64_t share) {
    const std::int64_t end = std::min(example.size(), begin + share);
    Example part{.ids = {example.ids.begin() + begin, example.ids.begin() + end},
                 .learnt = {example.learnt.begin() + begin, example.learnt.begin() + end},
                 .file = example.file,
                 .line = example.line,
                 .value = example.value,
                 .neighbors = example.neighbors};
    return part;
  }

  void add(std::vector<Example>& to, std::span<Example> unit) {
    if (std::ranges::all_of(unit, [](const Example& one) { return one.targets() > 0; })) {
      to.insert(to.end(), std::make_move_iterator(unit.begin()),
                std::make_move_iterator(unit.end()));
      return;
    }
    if (set_.without_targets++ == 0)
      log_.warn(concat(unit.front().file, ":", unit.front().line,
                       ": no token of an assistant turn is learnt; samples like it are left out"));
  }

  const ReadOptions& options_;
  const ExampleMaker& maker_;
  const Log& log_;
  std::string file_;
  std::optional<LineKind> kind_;
  ExampleSet set_;
  bool warned_of_prompt_ = false;
};

}  // namespace

ExampleSet read_examples(const ReadOptions& options, const ExampleMaker& maker, BadLines& bad,
                         const Log& log) {
  ExampleSet set = Reader(options, maker, log).read(bad);
  if (!set.train.empty()) return set;
  bad.commit();  // which say why
  fail(
      Exit::bad_data, options.files.front(), ": no sample to learn: of ", set.lines, " lines ",
      set.bad, " cannot be used, ", set.too_long, " are longer than ", options.longest,
      options.longest_target > 0 ? concat(" tokens, or targets than ", options.longest_target) : "",
      " tokens, ", set.without_targets, " have no token of an assistant turn",
      set.held_out.empty() ? "" : concat(", ", set.held_out.size(), " --valid-split holds out"));
}

}  // namespace mt
