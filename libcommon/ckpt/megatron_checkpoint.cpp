#include "ckpt/megatron_checkpoint.h"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iomanip>

#include "base/allowance.h"
#include "base/error.h"
#include "ckpt/checkpoint_manifest.h"

namespace mt {

namespace fs = std::filesystem;

std::string iteration_folder(const std::string& save_folder, std::int64_t iteration) {
  std::ostringstream out;
  out << save_folder << "/iter_" << std::setfill('0') << std::setw(7) << iteration;
  return std::move(out).str();
}

// --- Finding ------------------------------------------------------------------------------------

static std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error) fail(Exit::no_input, folder, ": cannot list: ", error.message());
  std::sort(names.begin(), names.end());
  return names;
}

static void check_backend(const std::string& path) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  std::string_view backend;
  const std::string text = read_regular_file(path);
  Allowance(text.size()).take_json(text, path);
  if (parser.parse(text).get(root) || root["sharded_backend"].get(backend))
    fail(Exit::bad_data, path, ": expected a JSON object with `sharded_backend`");
  if (backend != "torch_dist")
    fail(Exit::bad_data, path, ": sharded_backend is ", backend, ", expected torch_dist");
}

CheckpointFormat detect_checkpoint_format(const std::string& iteration_folder) {
  const std::vector<std::string> names = names_in(iteration_folder);
  const auto has = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has("metadata.json")) {
    check_backend(iteration_folder + "/metadata.json");
    return CheckpointFormat::torch_dist;
  }
  for (const std::string& name : names)
    if (name.starts_with("mp_rank_0")) return CheckpointFormat::torch;
  if (has(".metadata")) return CheckpointFormat::torch_dcp;
  fail(Exit::bad_data, iteration_folder,
       ": no checkpoint: expected metadata.json, mp_rank_0* or .metadata");
}

bool is_one_checkpoint(const std::string& folder) {
  for (const char* name : {"metadata.json", "mp_rank_00", "mp_rank_00_000", "mp_rank_00_000_000"})
    if (fs::exists(concat(folder, "/", name))) return true;
  return false;
}

// The folder of one checkpoint, named instead of the folder that holds it.
static std::optional<CheckpointPlace> one_checkpoint(const std::string& folder) {
  if (!is_one_checkpoint(folder)) return {};
  fs::path path(folder);
  if (!path.has_filename()) path = path.parent_path();
  const std::string name = fs::absolute(path).lexically_normal().filename().string();
  CheckpointPlace place{path.string(), 0, name == "release"};
  const char* const end = name.data() + name.size();
  if (name.starts_with("iter_")) std::from_chars(name.data() + 5, end, place.iteration);
  return place;
}

// Checkpoints that a tracker could name, the release last.  What a program that writes in place was
// killed over is none.
static std::vector<CheckpointPlace> whole_checkpoints(const std::string& save_folder) {
  std::vector<CheckpointPlace> places;
  const auto add = [&](std::int64_t iteration) {
    const std::string folder = checkpoint_folder(save_folder, iteration);
    if (is_one_checkpoint(folder) || fs::exists(folder + "/.metadata"))
      places.push_back({folder, iteration, iteration == 0});
  };
  if (!fs::is_directory(save_folder)) return {};
  for (const std::int64_t iteration : list_checkpoints(save_folder)) add(iteration);
  add(0);
  return places;
}

// What the tracker would name, had the save not died when all but that was done.
static std::optional<CheckpointPlace> untracked_save(const std::vector<CheckpointPlace>& places) {
  const auto newest = std::ranges::max_element(places, {}, &CheckpointPlace::iteration);
  if (newest == places.end() || !fs::exists(concat(newest->folder, "/", kSaveMark))) return {};
  return *newest;
}

// Other checkpoints without the file that says which of them counts would be passed over, and
// replaced by the next ones.
static std::optional<CheckpointPlace> find_untracked(const std::string& save_folder) {
  const std::vector<CheckpointPlace> places = whole_checkpoints(save_folder);
  if (places.empty()) return {};
  if (auto place = untracked_save(places)) return place;
  std::string found;
  for (const CheckpointPlace& place : places)
    found += concat(found.empty() ? "" : ", ", fs::path(place.folder).filename().string());
  fail(Exit::no_input, save_folder, ": holds ", found, ", but no ", kTracker,
       ", which says with a number or `release` what to go on from");
}

void complete_saves(const std::string& save_folder) {
  const std::vector<CheckpointPlace> places = whole_checkpoints(save_folder);
  const auto place = untracked_save(places);
  if (place && !fs::exists(concat(save_folder, "/", kTracker)))
    write_tracker(save_folder, place->iteration);
  std::error_code error;
  for (const CheckpointPlace& whole : places)
    fs::remove(concat(whole.folder, "/", kSaveMark), error);
}

// The iteration that Megatron Bridge's own tracker names; nothing where it has none.
static std::optional<std::int64_t> bridge_step(const std::string& save_folder) {
  const std::string path = concat(save_folder, "/", kTrainState);
  if (!fs::exists(path)) return {};
  const MappedFile file(path);
  const TorchReader reader(file.bytes(), path);
  std::int64_t step = 0;
  const StoredTensor stored = reader.tensor(reader.value().at("step", path));
  if (stored.dtype != DType::i64 || stored.shape.numel() != 1)
    fail(Exit::bad_data, path, ": step: expected an integer");
  stored.copy_to({&step, DType::i64, stored.shape});
  if (step <= 0) fail(Exit::bad_data, path, ": step is ", step, ", expected an iteration above 0");
  return step;
}

std::optional<CheckpointPlace> find_checkpoint(const std::string& save_folder,
                                               std::optional<std::int64_t> step) {
  if (fs::exists(save_folder) && !fs::is_directory(save_folder))
    fail(Exit::no_input, save_folder, ": is a file, expected a folder of checkpoints");
  if (auto place = one_checkpoint(save_folder)) {
    if (step && !place->release && *step != place->iteration)
      fail(Exit::no_input, save_folder, ": is iteration ", place->iteration, ", but ", *step,
           " was asked for");
    return place;
  }
  const std::string tracker = save_folder + "/" + kTracker;
  std::string word;
  if (fs::exists(tracker)) {
    std::istringstream content(read_regular_file(tracker));
    std::string more;
    content >> word;
    if (word.empty() || content >> more)
      fail(Exit::bad_data, tracker, ": expected an iteration or `release`");
  }
  if (word == "release") return CheckpointPlace{save_folder + "/release", 0, true};
  CheckpointPlace place;
  if (step) {
    place.iteration = *step;
  } else if (word.empty()) {
    const auto bridge = bridge_step(save_folder);
    if (!bridge) return find_untracked(save_folder);
    place.iteration = *bridge;
  } else {
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, place.iteration);
    if (error != std::errc() || stop != end || place.iteration <= 0)
      fail(Exit::bad_data, tracker, ": is not an iteration above 0 or `release`");
  }
  place.folder = iteration_folder(save_folder, place.iteration);
  if (!fs::exists(place.folder) && fs::exists(place.folder + kReplaced)) place.folder += kReplaced;
  if (!fs::exists(place.folder))
    fail(Exit::no_input, place.folder, ": does not exist, but ",
         step ? "was asked for" : concat(tracker, " names it"));
  return place;
}

std::vector<std::int64_t> list_checkpoints(const std::string& save_folder) {
  std::vector<std::int64_t> iterations;
  for (const std::string& name : names_in(save_folder)) {
    std::int64_t iteration = 0;
    const char* const end = name.data() + name.size();
    if (name.size() >= 12 && name.starts_with("iter_") &&
        std::from_chars(name.data() + 5, end, iteration).ptr == end && iteration > 0)
      iterations.push_back(iteration);
  }
  std::sort(iterations.begin(), iterations.end());
  return iterations;
}

// --- Loading ------------------------------------------------------------------------------------

static bool is_small(const std::string& name) { return !name.ends_with(".distcp"); }

// Before anything else is read: sizes of all files, hashes of the small ones and of this part.
static std::optional<CheckpointManifest> verify(const std::string& folder,
                                                MegatronCheckpoint::Part part) {
  if (detect_checkpoint_format(folder) != CheckpointFormat::torch_dist)
    fail(Exit::bad_data, folder, ": has no metadata.json, expected a torch_dist checkpoint");
  std::optional<CheckpointManifest> manifest = read_checkpoint_manifest(folder);
  if (!manifest) return {};
  for (const FileHash& file : manifest->files) verify_file(folder, file, is_small(file.name));
  if (part.while_reading) return manifest;
  int number = 0;
  for (const FileHash& file : manifest->files)
    if (!is_small(file.name) && number++ % part.count == part.index)
      verify_file(folder, file, true);
  return manifest;
}

static std::unique_ptr<HashedReads> hashed_reads(const std::string& folder,
                                                 const std::optional<CheckpointManifest>& manifest,
                                                 MegatronCheckpoint::Part part) {
  if (!manifest || !part.while_reading) return nullptr;
  std::vector<FileHash> large;
  for (const FileHash& file : manifest->files)
    if (!is_small(file.name)) large.push_back(file);
  return std::make_unique<HashedReads>(folder, large);
}

// Files that the checkpoint uses but its manifest does not know.
static void check_complete(const CheckpointManifest& manifest, const DistReader& reader) {
  std::vector<std::string> needed = reader.files();
  needed.insert(needed.end(), {".metadata", "metadata.json"});
  if (!reader.objects().contains(kCommonObject)) needed.emplace_back("common.pt");
  for (const std::string& name : needed) {
    const auto same = [&](const FileHash& file) { return file.name == name; };
    if (std::none_of(manifest.files.begin(), manifest.files.end(), same))
      fail(Exit::bad_data, reader.folder(), "/", kManifestName, ": does not list ", name);
  }
}

MegatronCheckpoint::MegatronCheckpoint(const std::string& iteration_folder, Part verified)
    : manifest_(verify(iteration_folder, verified)),
      reads_(hashed_reads(iteration_folder, manifest_, verified)),
      tensors_(iteration_folder, reads_.get()) {
  if (manifest_) check_complete(*manifest_, tensors_);
  const std::string path = iteration_folder + "/common.pt";
  if (fs::exists(path) && !(manifest_ && tensors_.objects().contains(kCommonObject))) {
    common_file_.emplace(path);
    common_reader_.emplace(common_file_->bytes(), path);
    common_ = common_reader_->value();
  } else if (tensors_.objects().contains(kCommonObject)) {
    common_reader_.emplace(tensors_.open_object(kCommonObject));
    const std::vector<PyValue>& parts = common_reader_->value().as_items(kCommonObject);
    if (parts.size() != 1)
      fail(Exit::bad_data, iteration_folder, ": ", kCommonObject, ": ", parts.size(),
           " values, expected 1");
    common_ = parts[0];
  } else {
    fail(Exit::bad_data, iteration_folder, ": neither common.pt nor ", kCommonObject);
  }
  if (!common_.is(PyValue::Kind::dict))
    fail(Exit::bad_data, iteration_folder, ": common state is ", name_of(common_.kind()),
         ", expected a dict");
}

void MegatronCheckpoint::finish_reading() const {
  if (reads_) reads_->finish();
}

std::string MegatronCheckpoint::manifest_extra() const {
  return manifest_ ? manifest_->extra : "{}";
}

void MegatronCheckpoint::read_common_tensor(const PyValue& value, Tensor out) const {
  const StoredTensor stored = common_reader_->tensor(value);
  if (stored.dtype != out.dtype() || !(stored.shape == out.shape()))
    fail(Exit::bad_data, tensors_.folder(), ": a tensor of the common state is ",
         name_of(stored.dtype), stored.shape, ", expected ", name_of(out.dtype()), out.shape());
  stored.copy_to(out);
}

}  // namespace mt
