#include "data/energon/make_energon.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/command.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json_place.h"
#include "base/progress.h"
#include "data/corpus/bad_lines.h"
#include "data/corpus/line_pipeline.h"
#include "data/energon/index_sqlite.h"
#include "data/energon/tar.h"
#include "data/images/line_images.h"
#include "data/samples/split.h"
#include "image/formats.h"
#include "text/chat/chat_value.h"
#include "text/training/output_folder.h"

namespace mt {
namespace {

namespace fs = std::filesystem;

constexpr std::array kParts = {"train", "val", "test"};
constexpr std::size_t kBlockBytes = 16 << 10;
constexpr std::int64_t kHashes = std::int64_t{1} << 40;  // that a split divides

// What a line becomes, but for the key: the files of a sample by what follows it.
struct MadeSample {
  EnergonType type = EnergonType::crude;
  std::vector<std::pair<std::string, FilePart>> images = {};  // by their part
  ChatValue json = {};       // whose "images" are named once the key is known
  std::string caption = {};  // instead
  std::int64_t hash = 0;
};

struct MadeLine {
  std::int64_t number = 0;
  std::string_view line = {};
  std::string wrong = {};
  MadeSample sample = {};
};

std::string_view ending_of(std::string_view image) {
  if (image.starts_with("\xff\xd8")) return "jpg";
  return image.starts_with("\x89PNG") ? "png" : "webp";
}

const std::string& text_of(const ChatValue& line, const char* name, const std::string& place) {
  const ChatValue* const value = line.find(name);
  if (value == nullptr || value->text() == nullptr)
    fail(Exit::bad_data, place, ": ", name, ": expected a text");
  return *value->text();
}

EnergonType type_of(const ChatValue& line) {
  if (line.has("caption")) return EnergonType::captioning;
  return line.has("answers") || line.has("answer") ? EnergonType::vqa : EnergonType::crude;
}

// The answers of a question, and how often each was given.
ChatValue question_of(const ChatValue& line, const std::string& place) {
  ChatValue made = ChatValue::dict({}), answers = ChatValue::list({}), weights = answers;
  made.set("context", text_of(line, line.has("context") ? "context" : "question", place));
  const ChatValue* const given = line.find("answers");
  if (given == nullptr) {
    answers.push_back(text_of(line, "answer", place));
  } else {
    const bool fits = given->is_list() && !given->items()->empty() &&
                      std::ranges::all_of(*given->items(), &ChatValue::is_text);
    if (!fits) fail(Exit::bad_data, place, ": answers: expected a list of texts");
    answers = *given;
  }
  const ChatValue* const weighed = line.find("answer_weights");
  if (weighed == nullptr || weighed->is_none()) {
    for (std::size_t i = 0; i < answers.items()->size(); ++i) weights.push_back(1.0);
  } else {
    const bool fits = weighed->is_list() && weighed->items()->size() == answers.items()->size() &&
                      std::ranges::all_of(*weighed->items(), [](const ChatValue& one) {
                        return one.real() != nullptr || one.integer() != nullptr;
                      });
    if (!fits) fail(Exit::bad_data, place, ": answer_weights: expected a number for each answer");
    weights = *weighed;
  }
  made.set("answers", answers);
  made.set("answer_weights", weights);
  return made;
}

MadeSample sample_of(std::string_view text, const std::string& place, const fs::path& beside) {
  check_begins_object(text, place);
  const ChatValue line = chat_value_of_json(text, place);
  MadeSample made{.type = type_of(line)};
  const std::vector<std::string> files = images_of(line, place);
  if (made.type != EnergonType::crude && files.size() != 1)
    fail(Exit::bad_data, place, ": has ", files.size(), " images, expected one");
  if (made.type == EnergonType::captioning)
    made.caption = text_of(line, "caption", place);
  else
    made.json = made.type == EnergonType::vqa ? question_of(line, place) : line;
  for (const std::string& file : files) {
    const std::string path = (beside / file).string();  // an absolute name stays
    check_image_is_there(path, place);
    const MappedFile mapped(path);
    const FilePart image{.path = path};
    std::string part;
    try {
      const Bytes content = image_in(mapped, image);
      decode_image(content, path);
      part = ending_of(as_text(content));
    } catch (const Error& error) {
      fail(error.code(), place, ": ", error.what());
    }
    if (files.size() > 1) part = concat(made.images.size(), ".", part);
    made.images.emplace_back(std::move(part), image);
  }
  Hasher hasher;
  hasher.update(text);
  made.hash = static_cast<std::int64_t>(hasher.digest().low % static_cast<std::uint64_t>(kHashes));
  return made;
}

std::vector<MadeLine> lines_of(const LineBlock& block) {
  std::vector<MadeLine> all;
  if (!block.too_long.empty()) {
    all.push_back({.number = block.first_line, .line = block.text(), .wrong = block.too_long});
    return all;
  }
  const fs::path beside = block.file == "-" ? fs::path() : fs::path(block.file).parent_path();
  for_each_line(block, [&](std::string_view line, std::int64_t number) {
    if (line.find_first_not_of(" \t\r") == line.npos) return;
    MadeLine& made = all.emplace_back(MadeLine{.number = number, .line = line});
    const std::string place = concat(block.file, ":", number);
    try {
      made.sample = sample_of(line, place, beside);
    } catch (const Error& error) {
      if (error.code() != Exit::bad_data) throw;
      made.wrong = error.what();
      if (made.wrong.starts_with(place + ": ")) made.wrong.erase(0, place.size() + 2);
    }
  });
  return all;
}

// With zeroes in front.
std::string padded(std::int64_t number, std::size_t digits) {
  const std::string text = std::to_string(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

// The shards of one part, "train" say.
class ShardWriter {
 public:
  ShardWriter(std::string folder, std::string part, std::int64_t most)
      : folder_(std::move(folder)), part_(std::move(part)), most_(most) {}

  void add(const std::string& key, const MadeSample& sample) {
    if (!tar_) open();
    offsets_.push_back(tar_->offset());
    IndexedSample row{.key = key, .begin = tar_->offset()};
    const auto add = [&](const std::string& part, std::string_view content) {
      row.parts.push_back({part, tar_->add(concat(key, ".", part), content), content.size()});
    };
    ChatValue names = ChatValue::list({});
    for (const auto& [part, image] : sample.images) {
      const MappedFile file(image.path);
      names.push_back(concat(key, ".", part));
      add(part, as_text(image_in(file, image)));
    }
    if (sample.type == EnergonType::captioning) {
      add("txt", sample.caption);
    } else {
      ChatValue json = sample.json;
      if (sample.type == EnergonType::crude && !sample.images.empty()) {
        json.erase("image");
        json.set("images", names);
      }
      add("json", chat_value_json(json));
    }
    row.end = tar_->offset();
    rows_.back().push_back(std::move(row));
    if (++counts_.back() == most_) close();
  }

  void close() {
    if (!tar_) return;
    offsets_.push_back(tar_->offset());
    tar_->finish();
    tar_.reset();
    files_.back()->set_aside();
    std::string bytes;
    for (const std::uint64_t offset : offsets_)
      for (int i = 0; i < 8; ++i) bytes += static_cast<char>(offset >> 8 * i & 0xff);
    files_.push_back(std::make_unique<AtomicFile>(files_.back()->path() + ".idx", false));
    files_.back()->write(bytes);
    files_.back()->set_aside();
    offsets_.clear();
  }

  void commit() {
    std::vector<AtomicFile*> all;
    for (const auto& file : files_) all.push_back(file.get());
    if (!all.empty()) commit_together(all);
  }

  std::string name(std::size_t shard) const {
    return concat(part_, "_", padded(static_cast<std::int64_t>(shard), 6), ".tar");
  }
  const std::vector<std::int64_t>& counts() const { return counts_; }  // of each shard
  std::vector<IndexedShard>& rows() { return rows_; }

 private:
  void open() {
    files_.push_back(
        std::make_unique<AtomicFile>(concat(folder_, "/", name(counts_.size())), false));
    tar_.emplace(*files_.back());
    counts_.push_back(0);
    rows_.emplace_back();
  }

  std::string folder_, part_;
  std::int64_t most_;
  std::vector<std::unique_ptr<AtomicFile>> files_;
  std::optional<TarWriter> tar_;
  std::vector<std::uint64_t> offsets_;
  std::vector<std::int64_t> counts_;
  std::vector<IndexedShard> rows_;
};

std::string dataset_yaml(EnergonType type, const std::set<std::string>& endings) {
  if (type == EnergonType::crude)
    return "__module__: megatron.energon\n__class__: CrudeWebdataset\n";
  std::string images;
  for (const std::string& one : endings) images += concat(images.empty() ? "" : ",", one);
  return concat("sample_type:\n  __module__: megatron.energon\n  __class__: ", energon_class(type),
                "\nfield_map:\n  image: ", images, "\n",
                type == EnergonType::captioning
                    ? "  caption: txt\n"
                    : "  context: json[context]\n  answers: json[answers]\n"
                      "  answer_weights: json[answer_weights]\n");
}

class FolderWriter {
 public:
  explicit FolderWriter(const EnergonOptions& options)
      : options_(options),
        ranges_(split_ranges("--split", options.split, kHashes)),
        folder_(options.output) {
    if (!fs::is_empty(options.output))
      fail(Exit::cannot_create, options.output, ": is not empty, expected a new folder");
    for (std::size_t i = 0; i < kParts.size(); ++i)
      parts_.emplace_back(options.output, kParts[i], options.samples_per_shard);
  }

  // Why the sample does not fit, if it does not.
  std::string add(const MadeSample& sample) {
    if (first_) summary_.type = sample.type;
    first_ = false;
    if (sample.type != summary_.type)
      return concat("is a ", energon_class(sample.type), ", and the first line is a ",
                    energon_class(summary_.type), "; a folder has one kind");
    std::size_t part = 0;
    while (part + 1 < kParts.size() && !(ranges_[part] && sample.hash < ranges_[part]->end)) ++part;
    parts_[part].add(padded(number_++, 9), sample);
    ++summary_.samples[part];
    summary_.images += std::ssize(sample.images);
    for (const auto& [name, image] : sample.images) endings_.insert(name);
    return "";
  }

  bool empty() const { return number_ == 0; }

  EnergonSummary& finish() {
    JsonWriter info;
    info.begin_object().key("shard_counts").begin_object();
    std::string yaml = "shard_counts:\n", splits = "split_parts:\n";
    std::vector<IndexedShard> rows;
    for (ShardWriter& part : parts_) {
      part.close();
      const auto& counts = part.counts();
      const std::size_t index = static_cast<std::size_t>(&part - parts_.data());
      splits += concat("  ", kParts[index], counts.empty() ? ": []\n" : ":\n");
      for (std::size_t i = 0; i < counts.size(); ++i) {
        info.member(part.name(i), counts[i]);
        yaml += concat("  ", part.name(i), ": ", counts[i], "\n");
        splits += concat("  - ", part.name(i), "\n");
      }
      summary_.shards += std::ssize(counts);
      std::ranges::move(part.rows(), std::back_inserter(rows));
    }
    info.end_object().end_object();
    const std::string meta = concat(options_.output, "/", kEnergonMeta);
    const OutputFolder made(meta);
    std::vector<std::unique_ptr<AtomicFile>> files;  // on the disk before any has its name
    const auto write = [&](const char* name, std::string_view content) {
      files.push_back(std::make_unique<AtomicFile>(concat(meta, "/", name), false));
      files.back()->write(content);
      files.back()->set_aside();
    };
    write("dataset.yaml", dataset_yaml(summary_.type, endings_));
    write("split.yaml", splits + "exclude: []\n");
    write(".info.yaml", yaml);
    write(".info.json", info.text() + "\n");
    const std::string index = index_sqlite(rows);
    write("index.sqlite", index);
    write("index.uuid", uuid_of(index));
    for (ShardWriter& part : parts_) part.commit();
    std::vector<AtomicFile*> all;
    for (const auto& file : files) all.push_back(file.get());
    commit_together(all);
    return summary_;
  }

 private:
  const EnergonOptions& options_;
  std::array<std::optional<ItemRange>, kSplits> ranges_;
  OutputFolder folder_;
  std::vector<ShardWriter> parts_;
  std::int64_t number_ = 0;
  std::set<std::string> endings_;
  EnergonSummary summary_;
  bool first_ = true;
};

}  // namespace

void EnergonOptions::add_to(CommandLine& cl) {
  cl.option("--input", &inputs, "FILE",
            "lines of JSON with images, which are files beside the lines; plain, gzip, bzip2, "
            "zstd or Parquet; - is stdin");
  cl.option("--output,-o", &output, "FOLDER", "a new folder");
  cl.required("--input");
  cl.required("--output");
  cl.option("--split", &split, "A,B,C",
            "proportions of train, val and test; a line's hash says where it goes");
  cl.option("--samples-per-shard", &samples_per_shard, "N", "samples of a tar file, at most",
            at_least(1));
  cl.option("--on-error", &on_error, "POLICY",
            "a line that cannot be used, one whose image is damaged say: stop, skip, or "
            "quarantine=FILE to collect such lines");
  cl.option("--workers,-j", &workers, "N", "threads; 0: one per core. Changes no byte",
            between(0, 4096));
}

void EnergonSummary::write(JsonWriter& json) const {
  json.begin_object().member("schema", "mt-mm/1").member("type", energon_class(type));
  json.member("lines", lines).member("bad_lines", bad_lines).member("images", images);
  json.member("shards", shards);
  for (std::size_t i = 0; i < kParts.size(); ++i) json.member(kParts[i], samples[i]);
  json.end_object();
}

EnergonSummary make_energon(const EnergonOptions& options, const RunContext& context) {
  LineReader::Options reading;
  reading.inputs = expand_inputs(options.inputs);
  reading.block_bytes = kBlockBytes;
  reading.are_json = true;
  reading.pass_long_lines = options.on_error != "stop";
  reading.checkpoint = [&] { context.checkpoint(); };
  LineReader reader(reading);
  FolderWriter writer(options);
  BadLines bad(options.on_error, false, reading.inputs, context.log);
  Progress progress(context.log, "reading", "bytes", stored_size(reading.inputs));
  std::int64_t lines = 0;
  run_line_pipeline<std::vector<MadeLine>>(
      reader, options.workers,
      [](const LineBlock& block, std::vector<MadeLine>& made) { made = lines_of(block); },
      [&](const LineBlock& block, std::vector<MadeLine>& made) {
        for (MadeLine& line : made) {
          ++lines;
          if (line.wrong.empty()) line.wrong = writer.add(line.sample);
          if (!line.wrong.empty())
            bad.add(block.file, {.number = line.number, .what = line.wrong, .line = line.line});
        }
        progress.add(static_cast<std::uint64_t>(block.stored_end) - progress.done());
      });
  progress.finish();
  if (writer.empty()) {
    bad.commit();  // which say why
    fail(Exit::bad_data, options.inputs.front(), ": no sample in it");
  }
  EnergonSummary& summary = writer.finish();
  bad.commit();
  summary.lines = lines;
  summary.bad_lines = bad.count();
  return summary;
}

}  // namespace mt
