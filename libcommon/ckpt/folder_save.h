// A folder that appears under its name whole or not at all, and what dead processes left of some.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ckpt/folder_files.h"

namespace mt {

inline constexpr const char* kReplaced = ".replaced";  // end of a folder's name

// Folders that are made on the way to one, each on the disk as soon as it is there.
class NewFolders {
 public:
  NewFolders() = default;
  NewFolders(const NewFolders&) = delete;
  ~NewFolders();  // removes those that are empty
  void make(const std::string& path);

 private:
  std::vector<std::string> made_;  // the innermost last
};

// A folder that appears under its name whole or not at all.  It is filled as
// PATH.tmp.PID and renamed when all in it is on the disk.  An older folder of the name is exchanged
// for it in one step (renameat2); where a file system cannot do that, the older is set aside as
// PATH.replaced, which readers take while PATH is missing.  Where others' files lie in the older
// one, it stays, and so do they: replace_files() takes the new ones there.
class FolderSave {
 public:
  // Its parents are made.  Without `replaces` a folder that has got the name until publish(), and
  // is not empty, is Exit::cannot_create; so is anything but a folder in any case.
  FolderSave(const std::string& path, FolderFiles files, bool replaces = true);
  FolderSave(const FolderSave&) = delete;
  ~FolderSave();  // before publish(), all that was written is removed, new parents too

  const std::string& folder() const { return folder_; }  // PATH.tmp.PID
  // On return the folder, whose files were synced, has its name, and that is on the disk.  `then`
  // is called before the folder loses its mark: what it does belongs to the save.
  void publish(const std::function<void()>& then = [] {});

 private:
  void replace();

  std::string path_, folder_;
  FolderFiles files_;
  int lock_ = -1;  // on folder_, held while this process lives: others see that it is not left over
  NewFolders parents_;
  bool replaces_, published_ = false;
};

// Removes the folders that dead processes left in a folder: marked ones (kSaveMark) that are called
// STEM.tmp.PID, where `ours` says so of STEM, and those called STEM.replaced, which get their name
// back if there is no STEM.
void remove_leftovers(const std::string& parent,
                      const std::function<bool(const std::string& stem)>& ours);

// Deletes a folder: renamed first, so that readers find it whole or not at all.  One that holds
// anything but its own files is left alone.
void delete_folder(const std::string& path, const FolderFiles& files);

// Renames a folder, synced, to a name that may be taken by an older one, whose own files are then
// removed.  What others put there meanwhile goes to the new one.  `may_exchange` false takes the
// way of file systems without renameat2.
void move_into_place(const std::string& from, const std::string& to, const FolderFiles& files,
                     bool may_exchange);

}  // namespace mt
