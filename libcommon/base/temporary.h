// Temporary names: what is written for PATH is called PATH.tmp.PID until it is whole, and locked
// while its process writes it.  What a dead process left under such a name is swept by the next
// that writes to PATH.
#pragma once

#include <sys/types.h>

#include <string>

namespace mt {

struct Temporary {
  std::string stem;  // PATH's own name
  pid_t writer = 0;  // 0: the name is of another kind
};

std::string temporary_name(const std::string& path);  // that of this process
std::string temporary_name_of_thread(
    const std::string& path);  // with .TID, but of the first thread
Temporary parse_temporary(
    const std::string& filename);  // PATH.tmp.PID, perhaps with numbers behind

// Whether the file or folder is locked, which tells its writer from an earlier process of the same
// number.  Where nothing can be locked (some network file systems), the number must do.
bool is_locked(const std::string& path, pid_t writer);

// Removes the files that dead processes left when they wrote `path`.  One that a process has closed
// and not yet renamed is known by the process's number.
void sweep_temporaries(const std::string& path);

}  // namespace mt
