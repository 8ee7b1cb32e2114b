#include "data/energon/inspect_energon.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/print.h"
#include "base/progress.h"
#include "base/threads.h"
#include "data/energon/energon_reader.h"
#include "image/orientation.h"

namespace mt {
namespace {

std::int64_t samples_of(const std::vector<EnergonFolder::Shard>& shards) {
  std::int64_t samples = 0;
  for (const EnergonFolder::Shard& shard : shards) samples += shard.samples;
  return samples;
}

// Calls use(part, shards, samples) for each part that has any.
template <class Use>
void for_each_part(const EnergonFolder& folder, const Use& use) {
  for (const std::string& name : folder.parts()) {
    if (!folder.has(name)) continue;
    const std::vector<EnergonFolder::Shard> shards = folder.part(name);
    use(name, std::ssize(shards), samples_of(shards));
  }
}

// Exit::bad_data for an index of another number of samples.
std::vector<std::uint64_t> read_index(const std::string& path, std::int64_t samples) {
  const std::string bytes = read_regular_file(path);
  const std::size_t size = (static_cast<std::size_t>(samples) + 1) * sizeof(std::uint64_t);
  if (bytes.size() != size)
    fail(Exit::bad_data, path, ": ", bytes.size(), " bytes, expected ", size, " of ", samples,
         " samples");
  std::vector<std::uint64_t> begins(size / sizeof(std::uint64_t));
  std::memcpy(begins.data(), bytes.data(), size);
  return begins;
}

// What is wrong with a shard's index, whose samples begin there and end where the last number says;
// empty: nothing.
std::string wrong_index(const std::string& shard, const std::vector<std::uint64_t>& begins) {
  const std::string path = shard + ".idx";
  if (!std::filesystem::exists(path)) return path + ": is not there";
  try {
    const std::vector<std::uint64_t> stored = read_index(path, std::ssize(begins) - 1);
    const auto [in_shard, in_index] = std::ranges::mismatch(begins, stored);
    if (in_shard == begins.end()) return "";
    return concat(path, ": number ", in_shard - begins.begin(), " is ", *in_index,
                  ", and in the shard it is ", *in_shard);
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data) throw;
    return error.what();
  }
}

class Verifier {
 public:
  Verifier(const EnergonFolder& folder, const RunContext& context)
      : folder_(folder),
        context_(context),
        progress_(context.log, "verifying", "samples",
                  static_cast<std::uint64_t>(samples_of(folder.shards()))),
        workers_(0) {}

  std::vector<std::string> differences() {
    for_each_known_part();
    for (const EnergonFolder::Shard& shard : folder_.shards()) verify(shard);
    progress_.finish();
    return std::move(found_);
  }

 private:
  static constexpr std::size_t kAtATime = 256;  // samples

  void for_each_known_part() {
    for (const std::string& name : folder_.parts()) try {
        if (folder_.has(name)) folder_.part(name);
      } catch (const Error& error) {
        if (error.code() != Exit::bad_data) throw;
        found_.emplace_back(error.what());
      }
  }

  void verify(const EnergonFolder::Shard& shard) {
    const std::string path = folder_.path() + "/" + shard.name;
    if (!std::filesystem::exists(path)) {
      found_.push_back(path + ": is not there");
      return;
    }
    EnergonReader reader(folder_, {shard}, EnergonReader::Excluded::read);
    std::vector<std::uint64_t> begins;
    std::vector<EnergonSample> samples;
    bool cut = false;
    for (EnergonSample sample; reader.next(sample);) {
      cut = sample.cut;
      if (cut) {
        found_.push_back(concat(path, ": ", sample.wrong));
        break;
      }
      begins.push_back(sample.begin);
      if (!keys_.insert(sample.key).second)
        found_.push_back(
            concat(path, ": sample ", sample.number, ": the key ", sample.key, " occurs twice"));
      samples.push_back(std::move(sample));
      if (samples.size() == kAtATime) verify(std::exchange(samples, {}));
    }
    verify(samples);
    if (cut) return;
    if (std::ssize(begins) != shard.samples)
      found_.push_back(
          concat(path, ": ", begins.size(), " samples, and .info.json says ", shard.samples));
    begins.push_back(reader.end());
    if (std::string wrong = wrong_index(path, begins); !wrong.empty())
      found_.push_back(std::move(wrong));
  }

  void verify(const std::vector<EnergonSample>& samples) {
    context_.checkpoint();
    std::vector<std::string> wrong(samples.size());
    workers_.run([&] {
      parallel_for_ordered_errors(std::ssize(samples), [&](std::int64_t i) {
        const auto at = static_cast<std::size_t>(i);
        wrong[at] = wrong_with(samples[at]);
      });
    });
    for (std::string& one : wrong)
      if (!one.empty()) found_.push_back(std::move(one));
    progress_.add(samples.size());
  }

  static std::string wrong_with(const EnergonSample& sample) {
    const std::string place = concat(sample.shard, ": sample ", sample.number, ": ");
    if (!sample.wrong.empty()) return place + sample.wrong;
    for (const FilePart& image : sample.images) try {
        read_upright(image);
      } catch (const Error& error) {
        if (error.code() != Exit::bad_data) throw;
        return error.what();
      }
    return "";
  }

  const EnergonFolder& folder_;
  const RunContext& context_;
  Progress progress_;
  Workers workers_;
  std::set<std::string> keys_;
  std::vector<std::string> found_;
};

}  // namespace

void check_indexes(const EnergonFolder& folder) {
  for (const EnergonFolder::Shard& shard : folder.shards()) {
    const std::string path = concat(folder.path(), "/", shard.name);
    const MappedFile file(path);
    const std::uint64_t end = read_index(path + ".idx", shard.samples).back();
    if (end > file.bytes().size())
      fail(Exit::bad_data, path, ": ", file.bytes().size(), " bytes, and by its .idx the samples ",
           "end at ", end);
  }
}

std::string summary_text(const EnergonFolder& folder) {
  std::string text =
      concat(folder.path(), ": ", energon_class(folder.type()), ", ", folder.shards().size(),
             " shards, ", samples_of(folder.shards()), " samples");
  for_each_part(folder, [&](const std::string& name, std::int64_t shards, std::int64_t samples) {
    text += concat("; ", name, ": ", shards, " shards, ", samples, " samples");
  });
  return text;
}

std::string summary_json(const EnergonFolder& folder) {
  JsonWriter json;
  json.begin_object().member("schema", "mt-check-mm/1").member("prefix", folder.path());
  json.member("type", energon_class(folder.type())).member("shards", folder.shards().size());
  json.member("samples", samples_of(folder.shards())).key("parts").begin_object();
  for_each_part(folder, [&](const std::string& name, std::int64_t shards, std::int64_t samples) {
    json.key(name).begin_object().member("shards", shards).member("samples", samples).end_object();
  });
  json.end_object().end_object();
  return json.text();
}

void print_samples(const EnergonFolder& folder, const DocumentChoice& choice,
                   const std::function<void(std::string_view)>& print) {
  EnergonReader reader(folder, folder.shards(), EnergonReader::Excluded::read);
  EnergonSample sample;
  std::int64_t read = 0;
  for_each_document(samples_of(folder.shards()), choice, [&](std::int64_t number) {
    while (read <= number) {
      if (!reader.next(sample))
        fail(Exit::bad_data, folder.path(), ": has ", read, " samples, and .info.json says ",
             samples_of(folder.shards()));
      ++read;
      if (sample.cut) fail(Exit::bad_data, sample.shard, ": ", sample.wrong);
    }
    if (!sample.wrong.empty())
      fail(Exit::bad_data, sample.shard, ": sample ", sample.number, ": ", sample.wrong);
    print(sample.line);
  });
}

std::vector<std::string> differences_in(const EnergonFolder& folder, const RunContext& context) {
  return Verifier(folder, context).differences();
}

std::string verdict_text(const EnergonFolder& folder, const std::vector<std::string>& differences) {
  if (differences.empty()) return folder.path() + ": as its .nv-meta says";
  std::vector<std::string> lines;
  for (const std::string& difference : differences) lines.push_back(one_line(difference));
  return verdict_text(folder.path(), lines);
}

}  // namespace mt
