#include <filesystem>
#include <set>

#include "base/error.h"
#include "ckpt/checkpoint_manifest.h"
#include "ckpt/megatron_checkpoint.h"

namespace mt {

namespace fs = std::filesystem;

// The form that core_v0.12 writes; it refuses other keys.
constexpr const char* kMetadataJson =
    R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, )"
    R"("common_backend": "torch", "common_backend_version": 1})";
// What metadata.json says of a checkpoint without common.pt, as Megatron's main branch writes it.
constexpr const char* kNewMetadataJson =
    R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1})";

FolderFiles checkpoint_files() {
  const auto own = [](const std::string& folder) -> OwnFile {
    std::set<std::string> listed;
    try {
      if (const auto manifest = read_checkpoint_manifest(folder))
        for (const FileHash& file : manifest->files) listed.insert(file.name);
    } catch (const Error&) {  // one that is damaged lists nothing
    }
    return [listed = std::move(listed)](const std::string& name) {
      if (listed.contains(name)) return true;
      const std::size_t slash = std::min(name.find('/'), name.size());
      const std::string rank = name.substr(0, slash), file = name.substr(slash);
      if (file == "/model_optim_rng.pt" || file == "/distrib_optim.pt")
        return has_form(rank, "mp_rank_##") || has_form(rank, "mp_rank_##_###") ||
               has_form(rank, "mp_rank_##_###_###");
      return name == "common.pt" || name == ".metadata" || name == "metadata.json" ||
             name == kManifestName || has_form(name, "__#_#.distcp");
    };
  };
  return {.own = own, .keys = {kManifestName, ".metadata", "metadata.json"}};
}

void delete_checkpoint(const std::string& save_folder, std::int64_t iteration) {
  const std::string folder = iteration_folder(save_folder, iteration);
  if (!fs::is_symlink(folder)) delete_folder(folder, checkpoint_files());
}

std::string checkpoint_folder(const std::string& save_folder, std::int64_t iteration) {
  return iteration == 0 ? save_folder + "/release" : iteration_folder(save_folder, iteration);
}

std::string folder_to_save(const std::string& save_folder, std::int64_t iteration) {
  if (iteration < 0) fail(Exit::internal, "a checkpoint of iteration ", iteration);
  remove_leftovers(save_folder, [](const std::string& stem) {
    return stem.starts_with("iter_") || stem == "release";
  });
  return checkpoint_folder(save_folder, iteration);
}

void write_tracker(const std::string& save_folder, std::int64_t iteration) {
  write_file_atomically(save_folder + "/" + kTracker,
                        iteration == 0 ? "release" : std::to_string(iteration), true);
}

CheckpointSave::CheckpointSave(const std::string& save_folder, std::int64_t iteration,
                               bool replaces)
    : save_folder_(save_folder),
      iteration_(iteration),
      save_(folder_to_save(save_folder, iteration), checkpoint_files(), replaces) {}

// Another host's ranks may have written to a folder of the same name that is not this one.
static void check_present(const std::string& folder, const FileHash& file) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(folder + "/" + file.name, error);
  if (error || size != file.bytes)
    fail(Exit::io_error, folder, "/", file.name,
         ": not there as its rank wrote it: is the folder on a file system that all ranks share?");
}

static FileHash write_small(const std::string& folder, const std::string& name,
                            std::string_view content) {
  HashedFile file(folder, name);
  file.write(as_bytes(content));
  return file.close();
}

void CheckpointSave::finish(const Content& content) {
  const bool has_file = !content.common.is_none();
  if (has_file && !content.common.is(PyValue::Kind::dict))
    fail(Exit::internal, "common state is no dict");
  CheckpointManifest manifest{iteration_, {}, content.manifest_extra};
  for (const WrittenFile& file : content.files) {
    check_present(folder(), file);
    manifest.files.push_back(file);
  }
  if (has_file) {
    HashedFile common(folder(), "common.pt");
    common_writer_.write(content.common, "common", [&](Bytes bytes) { common.write(bytes); });
    manifest.files.push_back(common.close());
  }
  manifest.files.push_back(
      write_dist_metadata(folder(), content.files, {.mcore_data = content.mcore_data}));
  manifest.files.push_back(
      write_small(folder(), "metadata.json", has_file ? kMetadataJson : kNewMetadataJson));
  write_small(folder(), kManifestName, encode_checkpoint_manifest(manifest));
}

void CheckpointSave::publish() {
  save_.publish([&] { write_tracker(save_folder_, iteration_); });
}

}  // namespace mt
