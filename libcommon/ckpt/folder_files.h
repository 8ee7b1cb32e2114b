// The files of a folder that a save replaces, told from those of others, which stay as they are.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

// Whether a file is one that a save replaces.  Its name begins at the folder: "mp_rank_00/a.pt".
using OwnFile = std::function<bool(const std::string& name)>;

// Lies in a folder that is being made or has been replaced, until it is whole or gone: what dead
// processes left is told by it from folders of others with such a name.
inline constexpr const char* kSaveMark = ".mt-save";

struct FolderFiles {
  std::function<OwnFile(const std::string& folder)> own;  // of a folder as it is now
  // Files without which nobody takes the folder for a model's.  Where others' files lie between,
  // these are the first to go and the last to come.
  std::vector<std::string> keys = {};
};

// Whether a name is of a pattern's form, in which each run of `#` stands for that many digits or
// more: "model-#####-of-#####.safetensors".
bool has_form(std::string_view name, std::string_view pattern);

// Lists the names of all files below a folder, sorted; a link is a file, whatever it leads to.
std::vector<std::string> files_below(const std::string& folder);

// What of a folder is not of a save, the first by its name: a file, or an empty folder.  Empty if
// all is.
std::string first_of_others(const std::string& folder, const OwnFile& own);

// Deletes a folder's own files, and the folder unless something is left in it, which it says.
bool remove_own_files(const std::string& folder, const OwnFile& own);

// Exit::cannot_create, before anything is written, if a folder of others has the name of a file.
void check_files_can_be_replaced(const std::string& folder, const OwnFile& own);

// Puts the files of folder `from` in the place of the own files of folder `to`, one after another,
// and leaves all else in `to` alone.  Readers find the old ones, nothing (see FolderFiles::keys),
// or the new ones, on the disk.  Before it changes anything it fails where it could not go on.
void replace_files(const std::string& from, const std::string& to, const FolderFiles& files);

}  // namespace mt
