#include "formats/convert_output.h"

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <set>
#include <vector>

#include "ckpt/megatron_checkpoint.h"
#include "formats/megatron/megatron_common.h"
#include "formats/peft/peft_folder.h"

namespace mt {

namespace fs = std::filesystem;

namespace {

bool is_megatron(const ConvertOptions& options) {
  return options.saver == "core" || options.saver == "legacy";
}

// The folder whose files are replaced.
std::string folder_written(const ConvertOptions& options, const ModelTarget& target) {
  if (!is_megatron(options)) return target.path;
  return checkpoint_folder(target.path, iteration_of(target.source));
}

FolderFiles files_of(const ConvertOptions& options, const ModelTarget& target) {
  if (options.saver == "hf") return hugging_face_files(target.source);
  if (options.saver == "meta") return meta_files(target.source);
  if (options.saver == "trtllm") return trtllm_files();
  return options.saver == "gguf" ? gguf_files() : checkpoint_files();
}

// --- INPUT --------------------------------------------------------------------------------------

// A name in a folder, whatever the folder is called.
struct NameInFolder {
  dev_t device = 0;
  ino_t folder = 0;
  std::string name;
  auto operator<=>(const NameInFolder&) const = default;
};

std::optional<NameInFolder> place_of(const fs::path& path) {
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  struct stat status;
  if (::stat(parent.c_str(), &status) != 0) return {};
  return NameInFolder{status.st_dev, status.st_ino, path.filename().string()};
}

// The first of the names that reading `path` goes by, a link or what it leads to, that is among
// `replaced`; empty if none is.
std::string replaced_of(fs::path path, const std::set<NameInFolder>& replaced) {
  constexpr int kMostLinks = 40;
  for (int links = 0; links < kMostLinks; ++links) {
    const auto place = place_of(path);
    if (place && replaced.contains(*place)) return path.string();
    std::error_code none;
    if (!fs::is_symlink(path, none)) return {};
    path = path.parent_path() / fs::read_symlink(path, none);
  }
  return {};
}

std::vector<std::string> files_read(const ConvertOptions& options, const ModelSource& source) {
  std::vector<std::string> files = {options.load, source.path()};
  if (fs::is_directory(source.path()))
    for (const std::string& name : files_below(source.path()))
      files.push_back(concat(source.path(), "/", name));
  for (const Companion& companion : source.companions())
    if (!companion.path.empty()) files.push_back(companion.path);
  return files;
}

void check_input_stays(const ConvertOptions& options, const ModelTarget& target) {
  std::error_code none;
  for (const std::string& input : {options.load, target.source.path()})
    if (fs::is_directory(input, none) && fs::equivalent(input, target.path, none))
      fail(Exit::usage, "OUTPUT ", options.save, ": is the folder of INPUT ", options.load,
           "; expected another");
  const std::string folder = folder_written(options, target);
  if (!fs::is_directory(folder, none)) return;
  const OwnFile own = files_of(options, target).own(folder);
  std::set<NameInFolder> replaced;
  for (const std::string& name : files_below(folder))
    if (const auto place = place_of(concat(folder, "/", name)); place && own(name))
      replaced.insert(*place);
  if (replaced.empty()) return;
  for (const std::string& file : files_read(options, target.source))
    if (const std::string lost = replaced_of(file, replaced); !lost.empty())
      fail(Exit::usage, "OUTPUT ", options.save, ": would replace ", lost, " of INPUT ",
           options.load, "; expected another folder");
}

// --- OUTPUT -------------------------------------------------------------------------------------

// By which a folder would still be read as what it was.
std::string other_model_in(const ConvertOptions& options, const std::string& path) {
  std::vector<std::string> names = {kTracker,     "metadata.json",  ".metadata",
                                    "mp_rank_00", "mp_rank_00_000", "mp_rank_00_000_000"};
  if (options.saver == "meta") names.emplace_back("config.json");
  names.emplace_back(kAdapterConfig);
  for (const std::string& name : names)
    if (fs::exists(concat(path, "/", name))) return name;
  return {};
}

}  // namespace

void check_output(const ConvertOptions& options, const ModelTarget& target) {
  const std::string& path = target.path;
  std::error_code error;
  const fs::file_status found = fs::status(path, error);
  if (found.type() == fs::file_type::not_found) return;
  if (found.type() == fs::file_type::none)
    fail(Exit::cannot_create, path, ": cannot create: ", error.message());
  if (!fs::is_directory(found))
    fail(Exit::cannot_create, path, ": is a file, expected a folder or nothing");
  check_input_stays(options, target);
  if (fs::is_empty(path)) return;
  if (!options.force)
    fail(Exit::cannot_create, path,
         ": exists; --force replaces a model's files there, and no others");
  if (is_megatron(options) && is_one_checkpoint(path))
    fail(Exit::usage, "--force: ", path, ": is a checkpoint itself, expected a folder of them");
  if (is_megatron(options) || options.saver == "gguf") return;
  if (const std::string name = other_model_in(options, path); !name.empty())
    fail(Exit::cannot_create, path, ": would still be read by its ", name,
         ", which --force does not replace; expected another folder");
}

void note_what_stays(const ConvertOptions& options, const ModelTarget& target, const Log& log) {
  if (options.saver == "gguf" && options.save.ends_with(".gguf"))
    log.warn(concat(options.save, ": becomes a folder; the model's file is ", options.save,
                    "/model.gguf"));
  std::error_code none;
  if ((options.saver != "hf" && options.saver != "meta") || brings_tokenizer(target.source) ||
      !fs::is_directory(target.path, none))
    return;
  for (const Companion& file : companions_in(target.path))
    if (is_tokenizer_file(file.name))
      return log.note(concat(target.path, ": its tokenizer (", file.name, ") stays: ", options.load,
                             " brings none"));
}

}  // namespace mt
